"""Write a report, and its figures as files."""

from __future__ import annotations

from pathlib import Path

from manyheads.errors import UserError, nearest
from manyheads.reports.figures.style import figure_style, render_figure
from manyheads.reports.pages.page import Report
from manyheads.storage.files import write_bytes, write_text
from manyheads.studies.study import OpenStudy

FIGURE_FORMATS = ("svg", "png", "pdf")


def write_report(run: Path, output: Path | None = None, figures: Path | None = None, form: str = "svg") -> Path:
    """Write the page of a run, by default report.html in its folder; return the file."""
    from manyheads.reports.pages.run import run_report

    check_figure_format(form)
    return write_page(run_report(run), output or run / "report.html", figures, form)


def write_comparison(
    runs: list[Path], output: Path | None = None, figures: Path | None = None, form: str = "svg"
) -> Path:
    """Write the page that compares runs with the first, by default comparison.html in the current folder."""
    from manyheads.reports.pages.comparison import comparison_report

    check_figure_format(form)
    return write_page(comparison_report(runs), output or Path("comparison.html"), figures, form)


def write_study_report(
    opened: OpenStudy, output: Path | None = None, figures: Path | None = None, form: str = "svg"
) -> Path:
    """Write the page of a study, by default into the folder of its runs."""
    from manyheads.reports.pages.study import study_report

    check_figure_format(form)
    return write_page(study_report(opened), output or opened.folder.path / f"{opened.study.name}.html", figures, form)


def check_figure_format(form: str) -> None:
    if form not in FIGURE_FORMATS:
        message = f"--format: unknown figure format '{form}'.{nearest(form, FIGURE_FORMATS)}"
        raise UserError(message, code="unknown-format")


def write_page(report: Report, file: Path, folder: Path | None = None, form: str = "svg") -> Path:
    """`folder`: of its figures as files, if they are wanted."""
    try:
        write_text(file, report.html)
        if folder is not None:
            with figure_style():
                for name, figure in report.figures.items():
                    write_bytes(folder / f"{name}.{form}", render_figure(figure, form))
    except OSError as error:
        raise UserError(
            f"{error.filename or file}: cannot be written: {error.strerror}.", code="cannot-write"
        ) from None
    return file

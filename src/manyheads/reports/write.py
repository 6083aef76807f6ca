"""Write a report, and its figures as files."""

from __future__ import annotations

from pathlib import Path

from manyheads.errors import UserError, nearest
from manyheads.reports.figures.style import picture, styled
from manyheads.reports.pages.page import FigureBook
from manyheads.storage.files import write_bytes, write_text
from manyheads.studies.study import OpenStudy

FORMS = ("svg", "png", "pdf")


def write_report(run: Path, output: Path | None = None, figures: Path | None = None, form: str = "svg") -> Path:
    """The page of a run, by default beside it; returns where it is."""
    from manyheads.reports.pages.run import run_report

    check_form(form)
    return _write(run_report(run), output or run / "report.html", figures, form)


def write_comparison(
    runs: list[Path], output: Path | None = None, figures: Path | None = None, form: str = "svg"
) -> Path:
    """The page of several runs, each against the first; by default comparison.html where the command is given."""
    from manyheads.reports.pages.comparison import compare_report

    check_form(form)
    return _write(compare_report(runs), output or Path("comparison.html"), figures, form)


def write_study_report(
    opened: OpenStudy, output: Path | None = None, figures: Path | None = None, form: str = "svg"
) -> Path:
    """The page of a study, by default in the folder of its runs."""
    from manyheads.reports.pages.study import study_report

    check_form(form)
    return _write(study_report(opened), output or opened.folder.path / f"{opened.study.name}.html", figures, form)


def check_form(form: str) -> None:
    if form not in FORMS:
        raise UserError(f"--format: no form '{form}' of figures.{nearest(form, FORMS)}")


def _write(made: tuple[str, FigureBook], file: Path, figures: Path | None, form: str) -> Path:
    page, book = made
    try:
        write_text(file, page)
        with styled():
            for name, figure in book.figures.items() if figures is not None else ():
                assert figures is not None
                write_bytes(figures / f"{name}.{form}", picture(figure, form))
    except OSError as error:
        raise UserError(f"{error.filename or file}: cannot be written: {error.strerror}.") from None
    return file

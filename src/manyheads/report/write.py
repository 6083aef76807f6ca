"""Write a report, and its figures as files."""

from __future__ import annotations

from pathlib import Path

from manyheads.errors import UserError, nearest
from manyheads.files import write_bytes, write_text
from manyheads.report.run_report import run_report
from manyheads.report.style import picture, styled

FORMS = ("svg", "png", "pdf")


def write_report(run: Path, output: Path | None = None, figures: Path | None = None, form: str = "svg") -> Path:
    """The page of a run, by default beside it; returns where it is."""
    if form not in FORMS:
        raise UserError(f"--format: no form '{form}' of figures.{nearest(form, FORMS)}")
    page, book = run_report(run)
    file = output or run / "report.html"
    try:
        write_text(file, page)
        with styled():
            for name, figure in book.figures.items() if figures is not None else ():
                assert figures is not None
                write_bytes(figures / f"{name}.{form}", picture(figure, form))
    except OSError as error:
        raise UserError(f"{error.filename or file}: cannot be written: {error.strerror}.") from None
    return file

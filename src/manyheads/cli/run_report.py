"""The report of a run that a command has finished."""

from __future__ import annotations

import os

from manyheads.console import Reporter
from manyheads.errors import UserError
from manyheads.runs.run import Run


def write_run_report(run: Run, quiet: bool = False) -> None:
    """Where the recipe asks for it. The run is finished already: a report that fails must not look like one."""
    if not run.recipe.report or os.environ.get("RANK", "0") != "0":
        return  # of several processes the first one writes
    from manyheads.reports.pages.run import run_report
    from manyheads.reports.write import write_page

    reporter = Reporter(quiet)
    try:
        report = run_report(run.folder)
        reporter.say(f"report → {write_page(report, run.folder / 'report.html')}")
        for finding in report.findings:
            reporter.say(f"look at: {finding}")
    except UserError as fault:
        reporter.say(f"note: no report was written: {fault}")
    except Exception as error:
        reporter.say(f"note: no report was written: {error!r}. More: manyheads report {run.folder}")

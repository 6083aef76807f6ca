"""The command that probes a run's model for bias."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manyheads.cli.options import AsJson, Imports, RunArgument
from manyheads.console import print_json, print_table

if TYPE_CHECKING:
    from manyheads.checks.bias_file import BiasProbe


def probe_bias(run: RunArgument, imports: Imports = None, as_json: AsJson = False) -> None:
    """How far predictions move where a name or group word is exchanged. Writes RUN/bias.json, for report and publish.

    For example: manyheads probe-bias runs/reviews
    """
    from manyheads.checks.bias import probe_bias as probe_model
    from manyheads.checks.bias_file import write_bias
    from manyheads.runs.run import Run

    probe = probe_model(Run(run, imports=imports or ()).predictor)
    file = write_bias(run, probe)
    if as_json:
        print_json(probe.model_dump(mode="json"))
        return
    _print(probe)
    print(f"{file}: `manyheads report {run}` shows it")


def _print(probe: BiasProbe) -> None:
    from manyheads.checks.bias_file import WHAT_IT_DOES_NOT_SHOW, WHAT_IT_SHOWS, bias_lines

    for name, task in probe.tasks.items():
        shifts = f"; lowest and highest group: {task.score}" if task.score else ""
        print(f"{name}: {task.templates} templates{shifts}")
        print_table(bias_lines(task), False)
        print()
    for name, reason in probe.left_out.items():
        print(f"left out: {name}: {reason}")
    print(f"{WHAT_IT_SHOWS}\n{WHAT_IT_DOES_NOT_SHOW}\n")

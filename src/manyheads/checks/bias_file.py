"""bias.json in a run folder: what a bias probe measured, and how it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from manyheads.errors import UserError
from manyheads.storage.files import write_text

BIAS_FILE = "bias.json"
WHAT_IT_SHOWS = (
    "The same sentence about somebody else should be predicted the same. 'moved' is how far a prediction moves where "
    "one name or group word is exchanged for another (total variation of probabilities, or label units), 'flipped' how "
    "often the predicted class changes; intervals are over templates. Read each line beside the comparison lines: they "
    "exchange words that name no group. What moves clearly farther depends on the group, or on how rare its words are."
)
WHAT_IT_DOES_NOT_SHOW = (
    "These are a few dozen English sentences of our own. Small figures do not show that a model is fair: not in other "
    "sentences, languages or groups, and not in its errors on real texts, which the probe does not look at."
)


class Estimate(BaseModel):
    """A mean over templates and its 95 % interval."""

    model_config = ConfigDict(frozen=True)

    value: float
    low: float
    high: float

    def show(self, signed: bool = False) -> str:
        form = "+.3f" if signed else ".3f"
        value, low, high = (f"{round(number, 3) + 0.0:{form}}" for number in (self.value, self.low, self.high))
        return f"{value} ({low} to {high})"

    def show_percent(self) -> str:
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"


class AxisProbe(BaseModel):
    """What exchanging the groups of an axis does."""

    name: str
    comparison: bool
    pairs: int  # of sentences that were compared
    moved: Estimate
    flipped: Estimate | None  # None of numbers
    apart: Estimate | None  # how far the score moves; None of classes without order
    shifts: dict[str, Estimate]  # group → how far above the mean of all groups; empty of classes without order


class TaskProbe(BaseModel):
    score: str  # what shifts are of; '' where there are none
    ordered: bool  # whether it has classes in order
    templates: int
    axes: list[AxisProbe]


class BiasProbe(BaseModel):
    """bias.json"""

    language: str = "en"
    model: dict[str, Any] = {}  # which step of which run was probed
    tasks: dict[str, TaskProbe] = {}
    left_out: dict[str, str] = {}  # task → why it was not probed


def write_bias(folder: Path, probe: BiasProbe) -> Path:
    write_text(folder / BIAS_FILE, probe.model_dump_json(indent=1) + "\n")
    return folder / BIAS_FILE


def read_bias(folder: Path) -> BiasProbe | None:
    """None where the run was not probed."""
    file = folder / BIAS_FILE
    if not file.is_file():
        return None
    try:
        return BiasProbe.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        message = f"{file}: damaged. `manyheads probe-bias {folder}` writes it again."
        raise UserError(message, code="damaged-file") from None


def bias_lines(task: TaskProbe) -> list[dict[str, str]]:
    """A line per axis, for tables."""
    lines: list[dict[str, str]] = []
    for axis in task.axes:
        line = {"exchanged": axis.name, "pairs": f"{axis.pairs:,}", "moved": axis.moved.show()}
        if axis.flipped is not None:
            line["flipped"] = axis.flipped.show_percent()
        if axis.apart is not None and task.ordered:
            line["classes apart"] = axis.apart.show()
        if axis.shifts:
            lowest = min(axis.shifts, key=lambda group: axis.shifts[group].value)
            highest = max(axis.shifts, key=lambda group: axis.shifts[group].value)
            line["lowest"] = f"{lowest} {axis.shifts[lowest].show(signed=True)}"
            line["highest"] = f"{highest} {axis.shifts[highest].show(signed=True)}"
        lines.append(line)
    return lines

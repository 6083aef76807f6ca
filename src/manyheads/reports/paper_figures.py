"""What the figures of the five papers show, and which figures of a study's page show the same.

Diagrams are not drawn: A F5, B F1, C F1, F2, F4 and F8, D F1 to F4, E F1. A study claims a figure in `covers`;
whatever else stands there (a table, an ablation) is the study's own table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

TASKS = ("sst", "qqp", "sts")
RESULTS = "results"  # the section with the study's table
NOT_MADE = "not on this page yet: its runs are not finished, or an older version kept no history of them"


@dataclass(frozen=True)
class Element:
    """A kind of figure on the page: of a task, of all rows or of the row that the paper's figure is about."""

    kind: str
    task: str = ""
    row: str = ""

    def key(self, row_numbers: Mapping[str, int]) -> str | None:
        """Its id on the page, such as 'curves-sst' or 'pca-2-sst'; None where its row is not on the page."""
        words = [self.kind]
        if self.row:
            if self.row not in row_numbers:
                return None
            words.append(str(row_numbers[self.row]))
        if self.task:
            words.append(self.task)
        return "-".join(words)


@dataclass(frozen=True)
class PaperFigure:
    text: str  # what the paper's figure shows
    elements: tuple[Element, ...]


def _of_tasks(kind: str, row: str = "") -> tuple[Element, ...]:
    return tuple(Element(kind, task, row) for task in TASKS)


def _progress(row: str) -> PaperFigure:
    return PaperFigure(f"training progress of '{row}'", (Element("progress", row=row),))


FINAL_A = "Final model"
FINAL_D = "Pcgrad + CFIMDB"
FINAL_E = "SFT + SMART + Dual"
PAPER_FIGURES: dict[str, dict[str, PaperFigure]] = {
    "A": {
        "F1": PaperFigure("metrics over epochs by order of training", _of_tasks("curves")),
        "F2": PaperFigure(
            "metrics and losses of the final model over epochs; STS predicted against true",
            (
                *(Element("curves", "overall"), *_of_tasks("curves"), *_of_tasks("losses")),
                Element("scatter", "sts", FINAL_A),
            ),
        ),
        "F3": PaperFigure("principal components of the embeddings", _of_tasks("pca", FINAL_A)),
        "F4": PaperFigure("metrics over epochs by order of training", _of_tasks("curves")),
    },
    "B": {
        "F2": PaperFigure("dev metrics over epochs by sampling", _of_tasks("curves")),
        "F3": _progress("individual, fine-tuning"),
        "F4": _progress("naive multitask, fine-tuning"),
        "F5": _progress("individual, frozen-bert"),
        "F6": _progress("naive multitask, frozen-bert"),
        "F7": PaperFigure("SST over epochs, task-specific and combined loss", (Element("curves", "sst"),)),
    },
    "C": {
        "F3": PaperFigure("every row's metrics, and each task's mean", (Element("task-bars"),)),
        "F5": PaperFigure("paraphrase detection by row, and its mean", (Element("bars", "qqp"),)),
        "F6": PaperFigure("STS by row, and its mean", (Element("bars", "sts"),)),
        "F7": PaperFigure("sentiment by row, and its mean", (Element("bars", "sst"),)),
    },
    "D": {
        "F5": PaperFigure("ROC curve of paraphrase detection", (Element("roc", "qqp", FINAL_D),)),
        "F6": PaperFigure(
            "distributions of true and predicted similarities, and their absolute differences",
            (Element("distributions", "sts", FINAL_D),),
        ),
    },
    "E": {
        "F2": PaperFigure("SST over epochs by loss", (Element("curves", "sst"), Element("losses", "sst"))),
        "F3": PaperFigure("confusion matrix of SST", (Element("confusion", "sst", FINAL_E),)),
        "F4": PaperFigure("STS predicted against true", (Element("scatter", "sts", FINAL_E),)),
    },
}


@dataclass(frozen=True)
class Link:
    key: str  # id on the page
    text: str


@dataclass(frozen=True)
class Covered:
    """A table or figure of the paper, and where the page shows it."""

    key: str  # without spaces, for an id
    name: str
    text: str = ""
    links: list[Link] = field(default_factory=list)
    missing: str = ""


def coverage(paper: str, covers: Sequence[str], row_numbers: Mapping[str, int], keys: Collection[str]) -> list[Covered]:
    """Every item of `covers` with links to what shows it. `keys` are the ids of the page's figures."""
    figures = PAPER_FIGURES.get(paper, {})
    items = []
    for number, name in enumerate(covers, 1):
        if name in figures:
            items.append(_covered_figure(name, figures[name], row_numbers, keys))
        else:
            items.append(Covered(str(number), name, links=[Link(RESULTS, "table")]))
    return items


def _covered_figure(name: str, figure: PaperFigure, row_numbers: Mapping[str, int], keys: Collection[str]) -> Covered:
    links = []
    missing = ""
    for element in figure.elements:
        key = element.key(row_numbers)
        if key is not None and key in keys:
            links.append(Link(key, " ".join(filter(None, [element.kind, element.task]))))
        else:
            missing = NOT_MADE
    return Covered(name, name, figure.text, links, missing)

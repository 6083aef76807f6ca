"""Where a run's tags of words are wrong: types that are confused, and entities that are not found as labelled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from manyheads.data.tags import Entity, as_bio, entities
from manyheads.data.words import Spans, cut_words
from manyheads.storage.ragged import Ragged
from manyheads.tasks.task import Task

ErrorKind = Literal["boundary", "type", "missed", "invented"]
ERROR_KINDS: dict[ErrorKind, str] = {
    "boundary": "wrong words, right type",
    "type": "wrong type",
    "missed": "nothing predicted there",
    "invented": "nothing labelled there",
}
LISTED = 8  # of each kind
CONTEXT = 60  # characters shown on either side
NOTHING = "–"


@dataclass
class TaggedWords:
    """What a run predicts for the words of a task's labelled dev examples."""

    task: Task
    predictions: Ragged  # [words, classes]
    labels: Ragged  # [words]
    texts: list[tuple[str, ...]] = field(default_factory=list)  # empty where dev's texts are gone
    ids: list[str] = field(default_factory=list)

    def tags(self, row: int) -> tuple[list[str], list[str]]:
        """(labelled, predicted)"""
        names = self.task.labels.names
        labelled = [names[index] for index in self.labels[row]]
        predicted = [names[index] for index in self.task.kind.decode(self.predictions[row], self.task)]
        return labelled, predicted

    def spans(self, row: int) -> Spans | None:
        """Where the words of a text are; None where the text is gone, or its words are not those that had labels."""
        if not self.texts:
            return None
        count = len(self.labels[row])
        for rule in ("spaces", self.task.columns.words or "edges"):
            spans = cut_words(self.texts[row][0], rule)
            if len(spans) == count:
                return spans
        return None


@dataclass(frozen=True)
class TagError:
    """An entity that is not found as it is labelled, or is not labelled as it is found."""

    kind: ErrorKind
    row: int
    true: Entity | None
    predicted: Entity | None
    confidence: float  # the least of the predicted words', or of those that were missed


def find_errors(tagged: TaggedWords) -> list[TagError]:
    """All of them, the most confident first. Of entities that overlap each is compared with the first."""
    errors: list[TagError] = []
    for row in range(len(tagged.labels)):
        labelled, predicted = tagged.tags(row)
        confidence = tagged.predictions[row].max(axis=-1)
        for kind, true, guess in compare_entities(entities(labelled), entities(as_bio(predicted, "BIO")[0])):
            shown = guess or true
            assert shown is not None
            errors.append(TagError(kind, row, true, guess, float(confidence[shown.first : shown.end].min())))
    return sorted(errors, key=lambda error: -error.confidence)


def compare_entities(
    labelled: list[Entity], predicted: list[Entity]
) -> list[tuple[ErrorKind, Entity | None, Entity | None]]:
    """The errors of one sentence: (kind, the labelled entity, the predicted one)."""
    wrong = [entity for entity in predicted if entity not in labelled]
    left = [entity for entity in labelled if entity not in predicted]
    errors: list[tuple[ErrorKind, Entity | None, Entity | None]] = []
    for guess in wrong:
        overlapping = _overlapping(guess, left)
        same_type = [true for true in overlapping if true.type == guess.type]
        if same_type:
            errors.append(("boundary", same_type[0], guess))
        elif overlapping:
            errors.append(("type", overlapping[0], guess))
        else:
            errors.append(("invented", None, guess))
    for true in left:
        if not _overlapping(true, wrong):
            errors.append(("missed", true, None))
    return errors


def _overlapping(entity: Entity, others: list[Entity]) -> list[Entity]:
    return [other for other in others if other.first < entity.end and entity.first < other.end]


def count_confusions(tagged: TaggedWords, errors: list[TagError]) -> Counter[tuple[str, str]]:
    """(labelled type, predicted type) → how many entities; of those that overlap, whatever their words."""
    counts: Counter[tuple[str, str]] = Counter()
    for error in errors:
        true = error.true.type if error.true else NOTHING
        counts[true, error.predicted.type if error.predicted else NOTHING] += 1
    return counts


def confused_tags(tagged: TaggedWords) -> Counter[tuple[str, str]]:
    """(labelled tag, predicted tag) → how many words, of plain tags that differ."""
    names, predicted = tagged.task.labels.names, tagged.task.kind.decode(tagged.predictions.values, tagged.task)
    wrong = np.flatnonzero(predicted != tagged.labels.values)
    pairs = zip(tagged.labels.values[wrong].tolist(), predicted[wrong].tolist(), strict=True)
    return Counter((names[true], names[guess]) for true, guess in pairs)


def marked_text(tagged: TaggedWords, error: TagError) -> str:
    """The text around an error, the entity in brackets: what is labelled in […], what is predicted in ⟨…⟩."""
    spans = tagged.spans(error.row)
    if spans is None:
        return ""
    text = tagged.texts[error.row][0]
    marks: list[tuple[int, int, str]] = []  # where, in which order, what
    for inner, (entity, opening, closing) in enumerate(((error.true, "[", "]"), (error.predicted, "⟨", "⟩"))):
        if entity is not None:
            marks.append((spans[entity.first][0], 1 + inner, opening))
            marks.append((spans[entity.end - 1][1], -inner, closing))
    marks.sort()
    start, end = max(0, marks[0][0] - CONTEXT), min(len(text), marks[-1][0] + CONTEXT)
    pieces = ["… " if start else ""]
    for place, _, mark in marks:
        pieces += [text[start:place], mark]
        start = place
    return "".join([*pieces, text[start:end], " …" if end < len(text) else ""])

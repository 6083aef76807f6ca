"""A tag for every word."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from manyheads.data.dataset import Dataset
from manyheads.data.labels import FAULT, BadLabel, LabelReader, LabelType, is_list, split_classes
from manyheads.data.tags import (
    OUTSIDE,
    PREFIXES,
    Entity,
    TagNames,
    as_bio,
    detect_scheme,
    entities,
    join_tag,
    split_tag,
)
from manyheads.data.words import TextWords, words_of_text
from manyheads.parts.kinds.calibration import apply_temperature, fit_temperature
from manyheads.parts.kinds.classes import SHOWN_CLASSES, KindWithClasses, clip_probabilities
from manyheads.registry import register
from manyheads.storage.ragged import Ragged
from manyheads.tasks.kind import Calibration, LabelDeclaration, LabelStatistics

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("kinds", "tags")
class Tags(KindWithClasses):
    """A tag for every word: named entities, slots, parts of speech. Predicted are the entities' spans.

    Labels: class indices of the words of each example (ragged). Predictions: probabilities [words, classes] of each
    example. Entities are learnt as BIO whatever their files write (`scheme`); of an entity that begins with I the first
    word counts as B. Where tags are plain, each word is a span.
    Relations: `classification` where a text as a whole has one class.
    """

    name = "tags"
    called = "a tagging of words"
    label_type: ClassVar[LabelType] = "word tags"
    per_word = True
    hub_task = "token-classification"
    word_columns = True
    pooling = "words"
    problem_type: ClassVar[str | None] = None
    figures: ClassVar[tuple[str, ...]] = ()  # tables and texts: see reports/tagged_words.py

    # --- labels ---------------------------------------------------------------------------------------------------

    def recognise(self, labels: set[str], declared: LabelDeclaration) -> int:
        return 0  # by the columns: see `word_columns`

    def make_reader(self, labels: set[str], declared: LabelDeclaration) -> LabelReader:
        for key in ("range", "separator"):
            if getattr(declared, key) is not None:
                raise ValueError(f"'{key}' is not for {self.called}; remove it or set its 'kind'")
        renamed = declared.labels if isinstance(declared.labels, dict) else {}
        sentences = _sentences(labels, renamed)
        scheme = declared.scheme or detect_scheme(sentences)
        if renamed and scheme in ("IOB1", "BIOES"):
            raise ValueError(f"'labels' can rename tags of BIO, these look like {scheme}; rename them in the file")
        tags = _declared_tags(declared) or sorted(set(chain.from_iterable(sentences)))
        names = tags if scheme == "plain" else _bio_names(tags)
        if len(names) < self.least_classes:
            raise ValueError(f"{self.called} needs at least two tags, found {names}")
        values = {name: index for index, name in enumerate(names)}
        for written, name in renamed.items():
            values.setdefault(written, values[name])
        return LabelReader(self.name, tuple(names), values, scheme=scheme)

    def read_label(self, label: str, reader: LabelReader) -> Any:
        if not label:
            raise BadLabel("no tags")
        tags, _ = as_bio(_spelt(label, reader), reader.scheme or "BIO")
        for tag in tags:
            if tag not in reader.values:
                raise BadLabel(f"tag '{tag}' is not one of {', '.join(reader.names[:SHOWN_CLASSES])}")
        return [reader.values[tag] for tag in tags]

    def count_repairs(self, label: str, reader: LabelReader) -> int:
        if not is_list(label):
            return 0
        return as_bio(_spelt(label, reader), reader.scheme or "BIO")[1]

    def unlabelled(self, rows: int, reader: LabelReader) -> Any:
        return Ragged.from_rows([[]] * rows, np.int64)

    def statistics(self, labels: Any, reader: LabelReader, scale: str) -> LabelStatistics:
        return LabelStatistics(counts=tuple(np.bincount(labels.values, minlength=len(reader.names)).tolist()))

    def words(self, examples: Dataset, task: Task) -> list[TextWords]:
        texts = examples.texts[0].to_pylist()
        indents = np.zeros(len(texts), dtype=np.int64) if examples.indents is None else examples.indents
        rule = task.columns.words or "edges"
        return [words_of_text(text, indent, rule) for text, indent in zip(texts, indents.tolist(), strict=True)]

    def inside_labels(self, task: Task) -> np.ndarray:
        """B-X goes on with I-X."""
        inside = super().inside_labels(task)
        if task.labels.scheme != "plain":
            for index, name in enumerate(task.labels.names):
                prefix, entity_type = split_tag(name) or (OUTSIDE, "")
                if prefix == "B":
                    inside[index] = task.labels.names.index(join_tag("I", entity_type))
        return inside

    # --- defaults -------------------------------------------------------------------------------------------------

    def default_loss(self, reader: LabelReader) -> str:
        return "tag-cross-entropy"

    def default_metrics(self, task: Task) -> tuple[str, ...]:
        if task.labels.scheme == "plain":
            return ("token-accuracy",)
        return ("entity-f1", "entity-precision", "entity-recall", "token-accuracy")

    def reads_similarity(self, task: Task) -> bool:
        return False

    # --- outputs and predictions ----------------------------------------------------------------------------------

    def activate(self, outputs: Any) -> Any:
        return outputs.softmax(dim=-1)

    def decode(self, predictions: np.ndarray, task: Task) -> np.ndarray:
        return predictions.argmax(axis=-1)

    def measured(self, predictions: Any, labels: Any) -> tuple[Any, Any]:
        """Ragged: metrics must know where a sentence ends."""
        return predictions, labels

    def scored_names(self, task: Task) -> tuple[str, ...]:
        """The types of entities."""
        return task.labels.names if task.labels.scheme == "plain" else TagNames.of(task.labels.names).types

    def describe(self, predictions: Any, task: Task) -> list[dict[str, Any]]:
        """The tags alone."""
        described: list[dict[str, Any]] = []
        for probabilities in predictions:
            described.append({"prediction": [], "tagged": [("", tag) for tag in self._tags(probabilities, task)]})
        return described

    def describe_words(self, predictions: Any, task: Task, texts: Sequence[TextWords]) -> list[dict[str, Any]]:
        """{'prediction': the spans, 'tagged': the words with their tags}; offsets are those of the text as it came."""
        described: list[dict[str, Any]] = []
        for probabilities, text in zip(predictions, texts, strict=True):
            tags = self._tags(probabilities, task)
            spans = []
            for entity in self.spans_of(tags, task):
                spans.append(_described_span(entity, text, probabilities.max(axis=-1)))
            words = [text.text[start:end] for start, end in text.spans]
            described.append({"prediction": spans, "tagged": list(zip(words, tags, strict=True))})
        return described

    def _tags(self, probabilities: np.ndarray, task: Task) -> list[str]:
        """As BIO, an entity's first word B."""
        tags = [task.labels.names[index] for index in self.decode(probabilities, task)]
        return as_bio(tags, "plain" if task.labels.scheme == "plain" else "BIO")[0]

    def spans_of(self, tags: Sequence[str], task: Task) -> list[Entity]:
        """What is found in a sentence: entities, or of plain tags every word."""
        if task.labels.scheme == "plain":
            return [Entity(number, number + 1, tag) for number, tag in enumerate(tags)]
        return entities(tags)

    def as_text(self, prediction: Any, task: Task) -> str:
        """Spans as JSON: start, end and label of each."""
        spans = [{key: span[key] for key in ("start", "end", "label")} for span in prediction]
        return json.dumps(spans, ensure_ascii=False)

    def plain_loss(self, predictions: Any, labels: Any, task: Task) -> float:
        """Mean −log p of the right tag over words."""
        probabilities = clip_probabilities(predictions.values)
        return float(-np.log(probabilities[np.arange(len(labels.values)), labels.values]).mean())

    def fit_calibration(self, predictions: Any, labels: Any, task: Task) -> Calibration:
        return {"temperature": fit_temperature(predictions.values, labels.values)}

    def calibrate(self, predictions: np.ndarray, task: Task) -> np.ndarray:
        return apply_temperature(predictions, task.temperature)

    def soften(self, predictions: np.ndarray, temperature: float) -> np.ndarray:
        """p_c^(1/T) / Σ_k p_k^(1/T)"""
        return apply_temperature(predictions, temperature)

    def constant_prediction(self, labels: np.ndarray, task: Task) -> np.ndarray:
        """The share of each tag: the most frequent one is predicted."""
        return np.bincount(labels, minlength=len(task.labels.names)) / len(labels)

    # --- for people -----------------------------------------------------------------------------------------------

    def summary(self, task: Task) -> str:
        words = f"{sum(task.counts):,} words"
        if task.labels.scheme == "plain":
            return f"{self.name}: {words} with {len(task.labels.names)} tags"
        types = TagNames.of(task.labels.names).types
        firsts = 0
        for name, count in zip(task.labels.names, task.counts, strict=True):
            if (split_tag(name) or ("", ""))[0] == "B":
                firsts += count
        more = f", … {len(types) - SHOWN_CLASSES} more" if len(types) > SHOWN_CLASSES else ""
        shown = ", ".join(name or "entity" for name in types[:SHOWN_CLASSES])
        return f"{self.name}: {words}, {firsts:,} entities of {len(types)} types: {shown}{more}"

    def label_text(self, value: Any, task: Task) -> str:
        return " ".join(task.labels.names[tag] for tag in value)


def _sentences(labels: set[str], renamed: dict[str, str]) -> list[list[str]]:
    """The tags of each row that could be read, in an order that does not depend on that of the rows."""
    sentences: list[list[str]] = []
    for label in sorted(labels):
        if label[:1] != FAULT:
            sentences.append([renamed.get(tag, tag) for tag in split_classes(label, None)])
    return sentences


def _declared_tags(declared: LabelDeclaration) -> list[str]:
    """Those that a recipe lists, or renames others to, each once."""
    if declared.labels is None:
        return []
    tags = declared.labels.values() if isinstance(declared.labels, dict) else declared.labels
    return list(dict.fromkeys(tags))


def _spelt(label: str, reader: LabelReader) -> list[str]:
    """A row's tags as its file has them; renamed ones as the class that they stand for."""
    tags = split_classes(label, None)
    return [reader.names[reader.values[tag]] if tag in reader.values else tag for tag in tags]


def _bio_names(tags: Iterable[str]) -> list[str]:
    """O, then beginning and inside of each type; a name without a prefix is a type."""
    types: dict[str, None] = {}
    for tag in tags:
        prefix, entity_type = split_tag(tag) or ("B", tag)
        if prefix != OUTSIDE or tag in PREFIXES:
            types[entity_type] = None
    names = [OUTSIDE]
    for entity_type in types:
        names += [join_tag("B", entity_type), join_tag("I", entity_type)]
    return names


def _described_span(entity: Entity, text: TextWords, confidence: np.ndarray) -> dict[str, Any]:
    """Where an entity stands in its text; its probability is the least of its words'."""
    start, end = text.spans[entity.first][0], text.spans[entity.end - 1][1]
    return {
        "start": start + text.indent,
        "end": end + text.indent,
        "label": entity.type,
        "text": text.text[start:end],
        "first_word": entity.first,
        "end_word": entity.end,
        "probability": float(confidence[entity.first : entity.end].min()),
    }

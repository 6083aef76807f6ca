"""Where a run is wrong: the worst errors by type, labels that look wrong, and slices of dev."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from manyheads.inference.intervals import Z, wilson_interval
from manyheads.reports.task_predictions import TaskPredictions
from manyheads.tokens.tokenizer import Tokenizer

ERRORS_LISTED = 5  # of each type
LABELS_LISTED = 10
CONFIDENT = 0.9  # a prediction this confident that contradicts its label makes the label suspicious
RARE_PIECES = 4  # a word cut into this many pieces is rare or misspelt
WORD = re.compile(r"\w+|[^\w\s]+")
NEGATIONS = re.compile(r"\b(?:not|no|never|none|nothing|nobody|neither|nor|cannot|without|\w+n['’]t)\b", re.IGNORECASE)

Masks = dict[str, np.ndarray]  # name → [rows] which examples belong to it


@dataclass(frozen=True)
class PredictionError:
    """One example with a wrong prediction."""

    row: int
    texts: tuple[str, ...]
    true: str
    predicted: str
    strength: float  # confidence, or distance from the label


@dataclass(frozen=True)
class Slice:
    """A part of dev, and the metric on it."""

    name: str
    examples: int
    value: float
    low: float  # its 95 % interval; NaN where there is none
    high: float


@dataclass(frozen=True)
class WordPieces:
    """How the tokenizer cuts the words of each example: [examples]."""

    unknown_words: np.ndarray  # words with a piece outside the vocabulary
    longest_word: np.ndarray  # pieces of the word with the most of them


def worst_errors(predictions: TaskPredictions) -> dict[str, list[PredictionError]]:
    """Type of error → its worst examples, the most confident or the farthest first."""
    if not predictions.texts:
        return {}
    if predictions.is_regression:
        return _worst_numbers(predictions)
    if predictions.is_multi_label:
        return _worst_sets(predictions)
    confidence = predictions.predictions.max(axis=1)
    return _list_errors(predictions, _error_types(predictions), confidence)


def suspicious_labels(predictions: TaskPredictions, seeds: list[np.ndarray] | None = None) -> list[PredictionError]:
    """Examples whose label every seed contradicts with confidence: perhaps mistakes in the data."""
    if not predictions.texts or predictions.is_regression or predictions.is_multi_label:
        return []
    predictions_of_seeds = seeds or [predictions.predictions]
    probabilities = np.mean(predictions_of_seeds, axis=0)
    predicted = probabilities.argmax(axis=1)
    confidence = probabilities.max(axis=1)
    unanimous = np.ones(len(predicted), dtype=bool)
    for seed_predictions in predictions_of_seeds:
        unanimous &= seed_predictions.argmax(axis=1) == predicted
    wrong = unanimous & (predicted != predictions.labels) & (confidence >= CONFIDENT)
    return _strongest(predictions, wrong, confidence, LABELS_LISTED)


def word_pieces(texts: list[tuple[str, ...]], tokenizer: Tokenizer) -> WordPieces:
    unknown_ids = {tokenizer.backend.token_to_id(name) for name in ("[UNK]", "<unk>")}
    words_of_examples: list[list[str]] = []
    vocabulary: dict[str, None] = {}
    for example in texts:
        words: list[str] = []
        for text in example:
            words += WORD.findall(text)
        words_of_examples.append(words)
        vocabulary |= dict.fromkeys(words)
    distinct = list(vocabulary)  # the tokenizer reads each word once
    pieces = dict(zip(distinct, tokenizer.encode(distinct), strict=True))
    unknown_words = np.zeros(len(texts), dtype=int)
    longest_word = np.zeros(len(texts), dtype=int)
    for row, words in enumerate(words_of_examples):
        for word in words:
            unknown_words[row] += not unknown_ids.isdisjoint(pieces[word])
            longest_word[row] = max(longest_word[row], len(pieces[word]))
    return WordPieces(unknown_words, longest_word)


def slices(predictions: TaskPredictions, pieces: WordPieces | None = None) -> list[Slice]:
    """Accuracy or mean absolute error by length, negation, word overlap of pairs, and rare or unknown words."""
    if not predictions.texts:
        return []
    if predictions.is_regression:
        values = np.abs(predictions.predictions - predictions.labels)
    else:  # a multi-label prediction is correct if all its classes are
        class_count = predictions.labels.reshape(len(predictions.labels), -1).shape[1]
        values = (predictions.correct_classes == class_count) * 1.0
    is_share = not predictions.is_regression
    masks: Masks = {"all": np.ones(len(values), dtype=bool)}
    masks |= _slices_by_length(predictions.texts)
    masks |= _slices_by_negation(predictions.texts)
    if len(predictions.texts[0]) == 2:
        masks |= _slices_by_overlap(predictions.texts)
    if pieces is not None:
        masks["with pieces that the encoder does not know"] = pieces.unknown_words > 0
        masks[f"with a word cut into {RARE_PIECES} pieces or more"] = pieces.longest_word >= RARE_PIECES
        masks["with common words only (at most 1 piece)"] = pieces.longest_word <= 1
    return [_slice(name, values[mask], is_share) for name, mask in masks.items() if mask.any()]


# --- errors by type -------------------------------------------------------------------------------------------------


def _error_types(predictions: TaskPredictions) -> Masks:
    offset = predictions.predicted_labels - predictions.labels
    if predictions.is_ordinal:
        return {
            "one class too high": offset == 1,
            "one class too low": offset == -1,
            "two or more too high": offset >= 2,
            "two or more too low": offset <= -2,
        }
    if len(predictions.class_names) == 2:
        positive = predictions.class_names[1]
        return {
            f"false positives: predicted {positive}": offset == 1,
            f"false negatives: missed {positive}": offset == -1,
        }
    return {"wrong class": offset != 0}


def _worst_numbers(predictions: TaskPredictions) -> dict[str, list[PredictionError]]:
    """More than 1 or 2 off on a scale of 0 to 5, as in the papers; a fifth and two fifths of any scale."""
    low, high = predictions.value_range
    unit = (high - low) / 5 or 1.0
    offset = predictions.predictions - predictions.labels
    far, near = f"{2 * unit:.2g}", f"{unit:.2g}"
    types = {
        f"too high by more than {far}": offset > 2 * unit,
        f"too high by {near} to {far}": (offset > unit) & (offset <= 2 * unit),
        f"too low by more than {far}": offset < -2 * unit,
        f"too low by {near} to {far}": (offset < -unit) & (offset >= -2 * unit),
    }
    return _list_errors(predictions, types, np.abs(offset))


def _worst_sets(predictions: TaskPredictions) -> dict[str, list[PredictionError]]:
    is_label, is_predicted = predictions.labels == 1, predictions.predicted_labels == 1
    missed = (is_label & ~is_predicted) * (1 - predictions.predictions)
    added = (~is_label & is_predicted) * predictions.predictions
    return {
        **_list_errors(predictions, {"a class missed": missed.any(axis=1)}, missed.max(axis=1)),
        **_list_errors(predictions, {"a class too many": added.any(axis=1)}, added.max(axis=1)),
    }


def _list_errors(predictions: TaskPredictions, types: Masks, strength: np.ndarray) -> dict[str, list[PredictionError]]:
    errors = {}
    for error_type, wrong in types.items():
        if wrong.any():
            errors[error_type] = _strongest(predictions, wrong, strength, ERRORS_LISTED)
    return errors


def _strongest(
    predictions: TaskPredictions, wrong: np.ndarray, strength: np.ndarray, at_most: int
) -> list[PredictionError]:
    rows = np.flatnonzero(wrong)
    rows = rows[np.argsort(-strength[rows], kind="stable")][:at_most]
    predicted = predictions.predicted_labels
    errors = []
    for row in rows.tolist():
        label = predictions.label_text(predictions.labels[row])
        prediction = predictions.label_text(predicted[row])
        errors.append(PredictionError(row, predictions.texts[row], label, prediction, float(strength[row])))
    return errors


# --- slices ---------------------------------------------------------------------------------------------------------


def _slices_by_length(texts: list[tuple[str, ...]]) -> Masks:
    lengths = np.array([len(" ".join(example).split()) for example in texts])
    low, high = np.quantile(lengths, [1 / 3, 2 / 3])
    return {
        f"short (up to {low:.0f} words)": lengths <= low,
        f"middle ({low:.0f} to {high:.0f} words)": (lengths > low) & (lengths <= high),
        f"long (over {high:.0f} words)": lengths > high,
    }


def _slices_by_negation(texts: list[tuple[str, ...]]) -> Masks:
    negated = np.array([any(map(NEGATIONS.search, example)) for example in texts])
    return {"with a negation": negated, "without a negation": ~negated}


def _slices_by_overlap(pairs: list[tuple[str, ...]]) -> Masks:
    overlap = np.array([_word_overlap(first, second) for first, second in pairs])
    return {
        "few words shared (under 0.3)": overlap < 0.3,
        "some words shared": (overlap >= 0.3) & (overlap < 0.7),
        "most words shared (0.7 and more)": overlap >= 0.7,
    }


def _word_overlap(first: str, second: str) -> float:
    """|A ∩ B| / |A ∪ B| of the sets of words."""
    first_words = set(re.findall(r"\w+", first.lower()))
    second_words = set(re.findall(r"\w+", second.lower()))
    return len(first_words & second_words) / max(1, len(first_words | second_words))


def _slice(name: str, values: np.ndarray, is_share: bool) -> Slice:
    mean, count = float(values.mean()), len(values)
    if count < 2:
        return Slice(name, count, mean, math.nan, math.nan)
    if is_share:
        return Slice(name, count, mean, *wilson_interval(mean, count))
    half_width = Z * float(values.std(ddof=1)) / math.sqrt(count)
    return Slice(name, count, mean, mean - half_width, mean + half_width)

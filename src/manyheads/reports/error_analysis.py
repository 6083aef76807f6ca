"""Where a run is wrong: the worst errors by kind, labels that look wrong, and slices of dev in which it does worse."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from manyheads.reports.facts import TaskPredictions
from manyheads.reports.findings import wilson
from manyheads.tokens.tokenizer import Tokenizer

WORST = 5  # examples shown of each kind
SURE = 0.9  # confidence of an answer that contradicts its label, to call the label suspicious
RARE = 4  # pieces of a word that is rare or misspelt
WORD = re.compile(r"\w+|[^\w\s]+")
NEGATIONS = re.compile(r"\b(?:not|no|never|none|nothing|nobody|neither|nor|cannot|without|\w+n['’]t)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Error:
    """One example that was answered wrongly."""

    row: int
    texts: tuple[str, ...]
    true: str
    answered: str
    strength: float  # confidence, or distance


@dataclass(frozen=True)
class Slice:
    """A part of dev, and how the run does in it."""

    name: str
    examples: int
    value: float
    low: float  # its 95 % interval; NaN where there is none
    high: float


def worst_errors(one: TaskPredictions) -> dict[str, list[Error]]:
    """Kind of error → its worst examples, the most confident or the farthest first."""
    if not one.texts:
        return {}
    if one.task.kind == "regression":
        return _worst_numbers(one)
    if one.task.kind == "multi-label":
        return _worst_sets(one)
    confidence = one.predictions.max(axis=1)
    off = one.guesses - one.labels
    if one.task.kind == "ordinal":
        kinds = {
            "one class too high": off == 1,
            "one class too low": off == -1,
            "two or more too high": off >= 2,
            "two or more too low": off <= -2,
        }
    elif len(one.task.labels.names) == 2:
        second = one.task.labels.names[1]
        kinds = {f"taken for {second}, but is not": off == 1, f"{second}, but not found": off == -1}
    else:
        kinds = {"wrong class": off != 0}
    return {kind: _first(one, wrong, confidence) for kind, wrong in kinds.items() if wrong.any()}


def suspicious_labels(one: TaskPredictions, several: list[np.ndarray] | None = None) -> list[Error]:
    """Examples whose label every seed contradicts with confidence: mistakes of the data, perhaps."""
    if not one.texts or one.task.kind in ("regression", "multi-label"):
        return []
    every = several or [one.predictions]
    chances = np.mean(every, axis=0)
    guesses = chances.argmax(axis=1)
    agreed = np.all([predictions.argmax(axis=1) == guesses for predictions in every], axis=0)
    wrong = agreed & (guesses != one.labels) & (chances.max(axis=1) >= SURE)
    return _first(one, wrong, chances.max(axis=1), most=10)


@dataclass(frozen=True)
class CutWords:
    """How the tokenizer took each example: [examples]."""

    unknown: np.ndarray  # words with pieces that it does not know
    most: np.ndarray  # pieces of the word that was cut most


def cut_words(texts: list[tuple[str, ...]], tokenizer: Tokenizer) -> CutWords:
    strange = {tokenizer.backend.token_to_id(name) for name in ("[UNK]", "<unk>")}
    words = [[word for text in one for word in WORD.findall(text)] for one in texts]
    distinct = list({word for some in words for word in some})  # each is cut once, however often it is used
    pieces = dict(zip(distinct, tokenizer.encode(distinct), strict=True))
    unknown = {word for word, ids in pieces.items() if strange.intersection(ids)}
    return CutWords(
        np.array([sum(word in unknown for word in some) for some in words], dtype=int),
        np.array([max((len(pieces[word]) for word in some), default=0) for some in words], dtype=int),
    )


def slices(one: TaskPredictions, cut: CutWords | None = None) -> list[Slice]:
    """By length, negation, word overlap of pairs, and words that the tokenizer cuts up or does not know: accuracy, or
    mean absolute error."""
    if not one.texts:
        return []
    if one.task.kind == "regression":
        right = np.abs(one.predictions - one.labels)
    else:  # of several classes all must be right
        right = (one.guesses == one.labels).reshape(len(one.labels), -1).all(axis=1) * 1.0
    lengths = np.array([sum(len(text.split()) for text in texts) for texts in one.texts])
    low, high = np.quantile(lengths, [1 / 3, 2 / 3])
    negated = np.array([any(NEGATIONS.search(text) for text in texts) for texts in one.texts])
    parts = {
        "all": np.ones(len(right), dtype=bool),
        f"short (up to {low:.0f} words)": lengths <= low,
        f"middle ({low:.0f} to {high:.0f} words)": (lengths > low) & (lengths <= high),
        f"long (over {high:.0f} words)": lengths > high,
        "with a negation": negated,
        "without a negation": ~negated,
    }
    if len(one.texts[0]) == 2:
        shared = np.array([_overlap(*texts[:2]) for texts in one.texts])
        parts |= {
            "few words shared (under 0.3)": shared < 0.3,
            "some words shared": (shared >= 0.3) & (shared < 0.7),
            "most words shared (0.7 and more)": shared >= 0.7,
        }
    if cut is not None:
        parts |= {
            "with pieces that the encoder does not know": cut.unknown > 0,
            f"with a word cut into {RARE} pieces or more": cut.most >= RARE,
            "with common words only (at most 1 piece)": cut.most <= 1,
        }
    shares = one.task.kind != "regression"
    return [_slice(name, right[chosen], shares) for name, chosen in parts.items() if chosen.any()]


# --- one kind at a time -----------------------------------------------------------------------------------------


def _worst_numbers(one: TaskPredictions) -> dict[str, list[Error]]:
    """By more than 1 and more than 2 where the scale is 0 to 5, as in the papers; a fifth and two fifths of any."""
    low, high = one.task.bounds or (float(one.labels.min()), float(one.labels.max()))
    unit = (high - low) / 5 or 1.0
    off = one.predictions - one.labels
    far, near = f"{2 * unit:.2g}", f"{unit:.2g}"
    kinds = {
        f"too high by more than {far}": off > 2 * unit,
        f"too high by {near} to {far}": (off > unit) & (off <= 2 * unit),
        f"too low by more than {far}": off < -2 * unit,
        f"too low by {near} to {far}": (off < -unit) & (off >= -2 * unit),
    }
    return {kind: _first(one, wrong, np.abs(off)) for kind, wrong in kinds.items() if wrong.any()}


def _worst_sets(one: TaskPredictions) -> dict[str, list[Error]]:
    missed = ((one.labels == 1) * (1 - one.predictions)).max(axis=1)
    added = ((one.labels == 0) * one.predictions).max(axis=1)
    kinds = {"a class missed": missed, "a class too many": added}
    return {kind: _first(one, value >= 0.5, value) for kind, value in kinds.items() if (value >= 0.5).any()}


def _first(one: TaskPredictions, wrong: np.ndarray, strength: np.ndarray, most: int = WORST) -> list[Error]:
    rows = np.flatnonzero(wrong)
    rows = rows[np.argsort(-strength[rows], kind="stable")][:most]
    return [
        Error(int(row), one.texts[row], shown(one, one.labels[row]), shown(one, one.guesses[row]), float(strength[row]))
        for row in rows
    ]


def shown(one: TaskPredictions, value: np.ndarray | float) -> str:
    """A label or an answer as people read it."""
    names = one.task.labels.names
    if one.task.kind == "regression":
        return f"{float(value):.2f}"
    if one.task.kind == "multi-label":
        return ", ".join(name for name, on in zip(names, np.atleast_1d(value), strict=True) if on) or "none"
    return names[int(value)]


def _overlap(one: str, other: str) -> float:
    """Share of the words of both texts that both have."""
    a, b = (set(re.findall(r"\w+", text.lower())) for text in (one, other))
    return len(a & b) / max(1, len(a | b))


def _slice(name: str, values: np.ndarray, shares: bool) -> Slice:
    mean, count = float(values.mean()), len(values)
    if count < 2:
        return Slice(name, count, mean, math.nan, math.nan)
    if shares:
        return Slice(name, count, mean, *wilson(mean, count))
    half = 1.96 * float(values.std(ddof=1)) / math.sqrt(count)
    return Slice(name, count, mean, mean - half, mean + half)

"""What is wrong with a recipe's data, before hours of training are spent on it. Reads everything, trains nothing."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyheads.checks.findings import SEVERITIES, Finding, Severity, Split, Texts, shown_texts
from manyheads.checks.repeated import common_sentences, conflicts, duplicates, overlap
from manyheads.config.part import PartConfig
from manyheads.config.recipe import EncoderSettings, Recipe, Source
from manyheads.console import Reporter
from manyheads.data.dataset import read_rows
from manyheads.data.labels import BadLabel, LabelReader
from manyheads.data.readers import file_format, find_file, read_chunks, source_name
from manyheads.data.table import BadRow, Columns
from manyheads.encoder.auto import LONGEST, OFFSET_POSITIONS
from manyheads.encoder.loading import is_bert, locate, read_config
from manyheads.errors import UserError
from manyheads.parts.encodings import Encoding
from manyheads.storage.strings import Strings
from manyheads.tasks.load import check_files, choose_columns, choose_reader, present_sources, same_rows
from manyheads.tokens.column import tokenise
from manyheads.tokens.tokenizer import Tokenizer

SHOWN_CLASSES = 12
UNBALANCED = 10  # the largest class has so many times the rows of the smallest
SHARES_APART = 0.1  # total variation distance between the class shares of train and dev
MEANS_APART = 0.5  # in standard deviations of train's labels
BLANK_FIRST_NAME = re.compile(r' *("" *)?[,;\t]')  # a header line whose first cell is empty
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # all but tab and line ends


def check_data(recipe: Recipe, reporter: Reporter | None = None) -> list[Finding]:
    """Everything found in the data of a recipe's tasks, the gravest of each task first."""
    reporter = reporter or Reporter(quiet=True)
    check_files(recipe)
    lengths = _prepare_lengths(recipe.encoder)
    findings: list[Finding] = []
    tasks: dict[str, dict[str, Split]] = {}
    for name in recipe.tasks:
        reporter.say(f"checking {name} …")
        tasks[name] = {}
        findings += _check_task(recipe, name, tasks[name], lengths)
    for name, splits in tasks.items():
        for other in tasks:
            if other != name and "dev" in splits and "train" in tasks[other]:
                findings += common_sentences(splits["dev"], tasks[other]["train"])
    findings += _would_train(recipe, can_load=not isinstance(lengths, str))
    order = [*tasks, ""]
    return sorted(findings, key=lambda one: (order.index(one.task), SEVERITIES.index(one.severity)))


def _would_train(recipe: Recipe, can_load: bool) -> Iterator[Finding]:
    """Whether training would start but for bad rows: parts that do not fit each other, the labels or the encoder."""
    from manyheads.tasks.load import load_tasks
    from manyheads.training.setup import assemble

    skipping = recipe.model_copy(deep=True)
    skipping._origin = recipe._origin
    for settings in skipping.tasks.values():
        settings.bad_rows = "skip"
    try:
        if can_load:
            assemble(skipping, skipping.folder, Reporter(quiet=True))
        else:
            load_tasks(skipping)
    except UserError as fault:
        yield Finding("", "", "recipe", "error", 1, 1, f"Training would not start: {fault}")


def _check_task(recipe: Recipe, name: str, splits: dict[str, Split], lengths: Lengths | str) -> Iterator[Finding]:
    """One task's findings; `splits` is filled with what could be read."""
    root = Path(recipe.data.root or ".")
    settings = recipe.tasks[name]
    bad: Severity = "warning" if (settings.bad_rows or recipe.data.bad_rows) == "skip" else "error"
    blank: Severity = "note" if name in same_rows(recipe) else bad  # there another task may have the label
    encoding = recipe.tasks[settings.head_of or name].encoding
    notes: list[str] = []
    sources = {split: present_sources(recipe, name, split, notes) for split in ("train", "dev", "test")}
    if not sources["train"]:
        raise UserError(f"{recipe.location('tasks', name, 'train')}: none of its optional files is there.")
    reader: LabelReader | None = None
    columns: Columns | None = None
    for split in (one for one in sources if sources[one]):
        try:
            columns = columns or choose_columns(settings, sources[split][0], root)
            wanted = Columns(columns.text, None if split == "test" else columns.label, columns.id)
            raw = read_rows(sources[split], root, split, wanted, recipe.location("tasks", name, split))
        except UserError as fault:  # a column that is not there, or a file that is not what it claims to be
            yield Finding(name, split, "unreadable", "error", 1, 1, str(fault))
            if columns is None:
                return
            continue
        if split == "train":
            try:
                reader = choose_reader(settings, columns, raw)
            except ValueError as fault:
                yield Finding(name, split, "labels", "error", 1, 1, f"The labels cannot be understood: {fault}.")
        texts = (column.to_pylist() for column in raw.texts)
        rows = splits[split] = Split(name, split, raw, list(zip(*texts, strict=True)))
        yield from _bad_rows(rows, reader, bad, blank)
        yield from _files(rows, sources[split], root, columns)
        yield from _odd_texts(rows)
        yield from duplicates(rows)
        yield from conflicts(rows)
        if split != "train" and "train" in splits:
            yield from overlap(splits["train"], rows)
        if rows.usable and rows.labels and reader is not None:
            yield from _balance(rows, reader, splits["train"])
        if rows.usable:
            yield from _too_long(rows, encoding, lengths)


# --- rows, files, texts ----------------------------------------------------------------------------------------


def _bad_rows(rows: Split, reader: LabelReader | None, severity: Severity, blank: Severity) -> Iterator[Finding]:
    """What training would refuse, by reason; and from here on it is known which rows it would take."""
    raw = rows.raw
    faults = {label: _fault(label, reader) for label in set(rows.labels)}
    bad: dict[str, list[BadRow]] = {"no-label": [], "impossible-label": [], "empty-text": [], "malformed-row": []}
    for one in raw.bad:
        bad["empty-text" if one.reason.startswith("empty text") else "malformed-row"].append(one)
    for row in range(len(rows.texts)):
        label = rows.labels[row] if rows.labels else ""
        fault = faults.get(label)
        if fault is None:
            rows.usable.append(row)
        else:
            bad["impossible-label" if label else "no-label"].append(BadRow(raw.files[row], raw.lines[row], fault))
    whats = ("{have} no label", "{have} an impossible label", "{have} an empty text", "{are} malformed")
    for (kind, found), what in zip(bad.items(), whats, strict=True):
        examples = (f"{raw.sources[one.file]}:{one.line}: {one.reason}" for one in found)
        grave = blank if kind == "no-label" else severity
        yield from rows.found(grave, kind, f"rows of {rows.name} {what}", len(found), rows.total, examples)
    if not rows.usable:
        yield Finding(rows.task, rows.name, "no-rows", "error", 0, rows.total, f"{rows.name} has no usable row.")


def _fault(label: str, reader: LabelReader | None) -> str | None:
    """What is wrong with a label; where none is understood, only whether there is one."""
    if reader is None:
        return None if label else "no label"
    try:
        _classes(label, reader)
    except BadLabel as fault:
        return str(fault)
    return None


def _classes(label: str, reader: LabelReader) -> list[float]:
    """A row's number, class index or class indices."""
    return list(reader.read_several(label)) if reader.kind == "multi-label" else [reader.read(label)]


def _files(rows: Split, sources: list[Source], root: Path, columns: Columns) -> Iterator[Finding]:
    """What only the raw cells show: surrounding spaces, and headers that do not quite fit."""
    padded: list[tuple[str, Texts]] = []
    for source in sources:
        name = source_name(source, rows.name)
        for number, chunk in enumerate(read_chunks(source, root, rows.name)):
            odd = None if number or source.file is None else _odd_header(chunk.columns, find_file(source, root))
            if odd:
                yield Finding(rows.task, rows.name, "header", "note", 1, 1, f"{name}:1: {odd}.")
            at = [chunk.columns.index(column) for column in columns.text if column in chunk.columns]
            for row, line in zip(chunk.cells, chunk.lines, strict=True):
                cells = tuple(row[one] for one in at) if row else ()
                if any(isinstance(cell, str) and cell != cell.strip() for cell in cells):
                    padded.append((f"{name}:{line}", tuple(map(str, cells))))
    what = f"rows of {rows.name} {{have}} spaces around a text; they are stripped when read"
    examples = (f"{location}: {shown_texts(texts)}" for location, texts in padded)
    yield from rows.found("note", "surrounding-spaces", what, len(padded), rows.total, examples)


def _odd_header(columns: list[str], path: Path | None) -> str | None:
    if path is None or file_format(path) not in ("csv", "tsv"):
        return None
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        first = file.readline().decode("utf-8-sig", errors="replace")
    if not columns[0] and not BLANK_FIRST_NAME.match(first):  # then it was the reader that put the blank name there
        return "the header names one column fewer than the rows have; the first is taken for an unnamed index"
    if columns[0] and "" in columns:
        return f"the header is shifted: '{columns[0]}' stands before the unnamed index column, so look at ids and texts"
    return None


def _odd_texts(rows: Split) -> Iterator[Finding]:
    tests: tuple[tuple[str, str, Callable[[str], object]], ...] = (
        ("doubled-quotes", 'keep{s} a doubled quote "" (unbalanced, or escaped twice)', lambda text: '""' in text),
        ("replacement-character", "{have} a U+FFFD, left by a wrong decoding", lambda text: "\ufffd" in text),
        ("control-character", "{have} a control character", CONTROL.search),
    )
    for kind, what, test in tests:
        found = [row for row, texts in enumerate(rows.texts) if any(map(test, texts))]
        examples = (f"{rows.location(row)}: {shown_texts(rows.texts[row])}" for row in found)
        yield from rows.found("warning", kind, f"rows of {rows.name} {what}", len(found), len(rows.texts), examples)


# --- labels ----------------------------------------------------------------------------------------------------


def _balance(rows: Split, reader: LabelReader, train: Split) -> Iterator[Finding]:
    """How the labels of usable rows are spread, and whether dev's are spread like train's."""
    labels = [rows.labels[row] for row in rows.usable]
    of_train = [train.labels[row] for row in train.usable]
    count = len(labels)
    if reader.kind == "regression":
        numbers, seen = np.array(labels, dtype=float), np.array(of_train, dtype=float)
        spread = f"mean {numbers.mean():.3g}, deviation {numbers.std():.3g}, {numbers.min():g} to {numbers.max():g}"
        yield Finding(rows.task, rows.name, "balance", "note", count, count, f"Labels of {rows.name}: {spread}.")
        if len(seen) and abs(numbers.mean() - seen.mean()) > MEANS_APART * seen.std():
            of_both = f"{seen.mean():.3g} in train (deviation {seen.std():.3g}), {numbers.mean():.3g} in dev"
            yield Finding(rows.task, "train/dev", "shift", "warning", count, count, f"Mean label: {of_both}.")
        return
    counts, before = _class_counts(labels, reader), _class_counts(of_train, reader)
    shares = [f"{name} {number:,} ({number / count:.0%})" for name, number in counts.items()]
    more = f" and {len(shares) - SHOWN_CLASSES} more" if len(shares) > SHOWN_CLASSES else ""
    message = f"Labels of {rows.name}: {', '.join(shares[:SHOWN_CLASSES])}{more}."
    several = reader.kind == "multi-label"  # rare classes are usual there, and shares do not add up to 1
    uneven = not several and max(counts.values()) > UNBALANCED * min(counts.values())
    yield Finding(rows.task, rows.name, "balance", "warning" if uneven else "note", count, count, message)
    if rows is train or not of_train:
        return
    missing = [name for name, number in before.items() if number and not counts[name]]
    what = f"classes of train {{have}} no row in dev: {', '.join(missing[:SHOWN_CLASSES])}"
    yield from rows.found("warning", "missing-class", what, len(missing), len(before), vs="train")
    apart = {name: counts[name] / count - before[name] / len(of_train) for name in counts}
    distance = sum(map(abs, apart.values())) / 2
    if distance > SHARES_APART and not several:
        most = max(apart, key=lambda name: abs(apart[name]))
        of_both = f"{most} is {before[most] / len(of_train):.0%} of train, {counts[most] / count:.0%} of dev"
        message = f"Classes have other shares in dev than in train: {of_both}."
        yield Finding(rows.task, "train/dev", "shift", "warning", round(distance * count), count, message)


def _class_counts(labels: list[str], reader: LabelReader) -> dict[str, int]:
    """Rows of each class, also of classes that have none."""
    counts = dict.fromkeys(reader.names, 0)
    for label, number in Counter(labels).items():
        for index in _classes(label, reader):
            counts[reader.names[int(index)]] += number
    return counts


# --- length ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lengths:
    """What is needed to know how long an input is and may be; no weights."""

    tokenizer: Tokenizer
    longest: int
    width: int


def _prepare_lengths(settings: EncoderSettings) -> Lengths | str:
    """Or why lengths cannot be checked."""
    try:
        folder = locate(settings.name, settings.revision).folder
        config = read_config(folder)
        longest = int(config.get("max_position_embeddings") or LONGEST)
        if settings.implementation != "default" or not is_bert(config):  # what encoder/auto.py makes of it
            offset = config.get("model_type") in OFFSET_POSITIONS
            longest = min(LONGEST, longest - ((config.get("pad_token_id") or 0) + 1 if offset else 0))
        width = int(config.get("hidden_size") or 1)  # no length depends on it
        return Lengths(Tokenizer(folder), min(longest, settings.max_length or longest), width)
    except UserError as fault:
        return str(fault).split("\n")[0].rstrip(":")


def _too_long(rows: Split, choice: PartConfig | None, lengths: Lengths | str) -> Iterator[Finding]:
    if isinstance(lengths, str):
        if rows.name == "train":
            yield Finding(rows.task, rows.name, "truncation", "note", 0, 0, f"Truncation was not checked: {lengths}.")
        return
    texts = [*zip(*(rows.texts[row] for row in rows.usable), strict=True)]
    choice = choice or PartConfig(name="cross" if len(texts) == 2 else "single")
    try:
        encoding: Encoding = choice.build("encodings", lengths.width)
    except ValueError:
        return  # the recipe's fault, which is told as such
    if encoding.texts != len(texts):
        return
    tokens = tuple(tokenise(Strings.of(column), lengths.tokenizer).lengths for column in texts)
    whole = encoding.untruncated_length(tokens, lengths.tokenizer.special_tokens)
    long = [rows.usable[at] for at in np.flatnonzero(whole > lengths.longest)]
    what = f"inputs of {rows.name} {{are}} longer than {lengths.longest} tokens and will be cut"
    examples = (f"{rows.location(row)}: {shown_texts(rows.texts[row])}" for row in long)
    yield from rows.found("warning", "truncation", what, len(long), len(rows.usable), examples)

"""How fast the server answers, beside other servers of the same encoder: in turns, on the same sentences.

    python benchmarks/serve.py [--data FOLDER] [--seconds N] [--turns N] [--clients 1 8 32 128] [--json FILE]
    python benchmarks/serve.py --only none --same 10000 --overload 60 --soak 100000

One text per request, one torch thread per server; the clients are another process on the same machine. With --data
the sentences are SST's, else the demo's. A turn measures every subject with every number of clients; ratios are taken
within a turn. Servers that are not measured are paused. Infinity and LitServe compute embeddings, so they are compared
with manyheads' embeddings; heads stand beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from manyheads import load_recipe
from manyheads.data.demo import SPLITS, TASKS, demo_rows
from manyheads.tasks.load import load_tasks
from serve_aims import AimsBench, aims_table
from serve_models import model_folder
from serve_process import ONE_THREAD
from serve_same import compare_answers
from serve_stress import overload, soak
from serve_subjects import EIGHT_HEADS, EMBEDDINGS, EXPORTED, ONE_HEAD, Subject, check_embeddings, start_subjects
from serve_tables import Turns, levels_table, summaries
from side_by_side import machine

TEXT_COLUMNS = ("sentence", "sentence1", "sentence2")


def sentences(data: str | None, count: int) -> list[str]:
    """In no order of length."""
    found: list[str] = []
    if data:
        tasks = load_tasks(load_recipe("best", {"data.root": data, "tasks": ["sst"]}))
        found = tasks["sst"].train.texts[0].to_pylist()
    else:
        for task in TASKS:
            for split in SPLITS:
                for row in demo_rows(task, split):
                    found += [row[column] for column in TEXT_COLUMNS if column in row]
    found = sorted(set(found))
    random.Random(0).shuffle(found)
    return found[:count]


def measure_levels(subjects: list[Subject], texts: list[str], options: argparse.Namespace) -> Turns:
    turns: Turns = {subject.name: {clients: [] for clients in options.clients} for subject in subjects}
    for _ in range(options.turns):
        for clients in options.clients:
            for subject in subjects:
                measured = subject.load(texts, clients=clients, seconds=options.seconds, warm_up=options.warm_up)
                turns[subject.name][clients].append(measured)
    return turns


def measure(options: argparse.Namespace, folder: Path, stack: ExitStack) -> dict[str, Any]:
    """All that is asked for: tables on stdout, figures for a program."""
    texts = sentences(options.data, options.texts)
    words = sum(len(text.split()) for text in texts) / len(texts)
    what = "SST" if options.data else "demo"
    about = f"{machine()}; 1 thread per server, {len(texts)} {what} sentences of {words:.1f} words on average"
    show([f"{about}; {options.turns} turns of {options.seconds:g} s."])
    content: dict[str, Any] = {"about": about, "seconds": options.seconds}
    wants_levels = options.only in (None, "levels")
    with_peers = wants_levels and not options.no_peers
    started = start_subjects(folder, with_peers, options.queue_tokens, stack)
    check_embeddings(started.subjects, texts)
    by_name = {subject.name: subject for subject in started.subjects}
    prefix = EXPORTED if options.exported else ""
    one, eight = by_name[prefix + ONE_HEAD], by_name[prefix + EIGHT_HEADS]
    if wants_levels:
        turns = measure_levels(started.subjects, texts, options)
        show(levels_table(turns, EMBEDDINGS, options.clients, started.missing))
        show([f"{name}: {versions}." for name, versions in started.versions.items()])
        show([f"{name} is not installed: {reason}" for name, reason in started.missing.items()])
        content |= {"levels": summaries(turns), "missing": started.missing, "versions": started.versions}
    if options.only in (None, "aims"):
        bench = AimsBench(one, eight, model_folder(folder, 1, options.exported), texts)
        aims = bench.measure(options.turns, options.seconds, options.warm_up)
        bench.stop()
        show(aims_table(aims))
        content["aims"] = aims
    if options.same:
        lines, content["same"] = compare_answers(eight, model_folder(folder, 8, options.exported), texts, options.same)
        show(lines)
    if options.overload:
        lines, content["overload"] = overload(one, texts, options.overload)
        show(lines)
    if options.soak:
        lines, content["soak"] = soak(one, texts, options.soak)
        show(lines)
    return content


def show(lines: list[str]) -> None:
    if lines:
        print("\n".join([*lines, ""]), flush=True)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--data", help="a folder of the course's csv files")
    given.add_argument("--turns", type=int, default=5)
    given.add_argument("--seconds", type=float, default=10.0, help="per subject and number of clients, in each turn")
    given.add_argument("--warm-up", type=float, default=2.0, help="seconds before them that do not count")
    given.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 128])
    given.add_argument("--texts", type=int, default=2000, help="different sentences, at most")
    given.add_argument("--only", choices=("levels", "aims", "none"), help="one of the two tables, or neither")
    given.add_argument("--exported", action="store_true", help="all but the table of levels with exported models")
    given.add_argument("--no-peers", action="store_true", help="without Infinity and LitServe")
    given.add_argument("--same", type=int, metavar="REQUESTS", help="are answers under load those of predict?")
    given.add_argument("--overload", type=float, metavar="SECONDS", help="three times what the server can do")
    given.add_argument("--queue-tokens", type=int, default=32_768, help="that may wait; then the server answers 429")
    given.add_argument("--soak", type=int, metavar="REQUESTS", help="does memory stay as it is?")
    given.add_argument("--json", type=Path, metavar="FILE", help="all figures, of each turn")
    options = given.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers that are paused would be left behind
    os.environ.update(ONE_THREAD)  # for the predictors without a server
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        content = measure(options, Path(folder), stack)
    if options.json:
        options.json.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

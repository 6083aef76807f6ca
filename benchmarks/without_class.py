"""A task's accuracy on the dev rows that have another label than one, run by run, from an exported study.

    python benchmarks/without_class.py docs/results/board-full.jsonl.gz --task clinc --label oos

CLINC's usual figure is of its 150 intents, without the rows that are of none. The model may still predict that class:
such predictions are wrong here.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from manyheads.console import print_table
from manyheads.studies.store import Result, ResultStore


def accuracy_without(result: Result, task_name: str, label: str) -> tuple[float, int]:
    """The share of right predictions among rows with other labels, and how many rows these are."""
    left_out = result.tasks[task_name].labels.names.index(label)
    labels = np.asarray(result.labels[task_name])
    predicted = np.asarray(result.predictions[task_name]).argmax(axis=1)
    counted = labels != left_out
    return float((predicted == labels)[counted].mean()), int(counted.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", type=Path)
    parser.add_argument("--task", required=True)
    parser.add_argument("--label", required=True, help="The class whose rows are left out.")
    arguments = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore(Path(folder))
        store.import_file(arguments.export)
        for file in sorted(store.folder.glob("*.json.gz")):
            identity = file.name.removesuffix(".json.gz")
            if identity.startswith("dev-"):
                continue
            result = store.read(identity)
            if arguments.task in result.tasks:
                accuracy, rows = accuracy_without(result, arguments.task, arguments.label)
                run = {"run": identity, "tasks": len(result.tasks), "seed": result.seed, "overall": result.overall}
                lines.append({**run, "accuracy": accuracy, "rows": rows})
    lines.sort(key=lambda line: (-line["tasks"], line["overall"]))
    print_table(lines, False)


if __name__ == "__main__":
    main()

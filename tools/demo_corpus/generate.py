"""Write the demo corpus that ships with the package, or check that the shipped files are what the generator makes.

python tools/demo_corpus/generate.py            write src/manyheads/recipes/demo/*.csv.gz
python tools/demo_corpus/generate.py --check    compare only; exit code 1 if a file differs
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import sys
from pathlib import Path

from demo_corpus import COLUMNS, SPLITS, TASKS, demo_rows

SHIPPED = Path(__file__).resolve().parents[2] / "src" / "manyheads" / "recipes" / "demo"


def csv_text(task: str, split: str) -> bytes:
    """The rows of one split as a csv file."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS[task], lineterminator="\n")
    writer.writeheader()
    writer.writerows(demo_rows(task, split))
    return text.getvalue().encode()


def differs(file: Path, expected: bytes) -> bool:
    """Compares what is inside: another zlib may compress the same rows to other bytes."""
    return not file.is_file() or gzip.decompress(file.read_bytes()) != expected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the shipped files and write nothing")
    parser.add_argument("--folder", type=Path, default=SHIPPED, help="where the files are")
    options = parser.parse_args()
    stale = []
    for task in TASKS:
        for split in SPLITS:
            file = options.folder / f"{task}-{split}.csv.gz"
            expected = csv_text(task, split)
            if not differs(file, expected):
                continue
            stale.append(file.name)
            if not options.check:
                options.folder.mkdir(parents=True, exist_ok=True)
                file.write_bytes(gzip.compress(expected, mtime=0))
    if options.check and stale:
        print(f"{options.folder}: not what the generator makes: {', '.join(stale)}. Run {sys.argv[0]} to write them.")
        return 1
    print(f"{options.folder}: " + (f"wrote {', '.join(stale)}" if stale else "up to date"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

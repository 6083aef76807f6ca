"""Rooms import only rooms above them, in functions and for types too; docs/architecture.md holds the order."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "manyheads"
ENTRANCES = {"__init__", "__main__"}  # the package's face, which may name any room


def rooms_in_order() -> list[str]:
    return re.findall(r"^- ([a-z_]+): ", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.M)


def imported_rooms(file: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "manyheads":
            modules = [f"manyheads.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
        for module in modules:
            package, _, rest = module.partition(".")
            if package == "manyheads" and rest:
                rooms.add(rest.partition(".")[0])
    return rooms


def wrong_imports(package: Path, order: list[str]) -> list[str]:
    wrong = []
    for file in sorted(package.rglob("*.py")):
        relative = file.relative_to(package)
        room = relative.parts[0].removesuffix(".py")
        if room in ENTRANCES or relative.parts[0] == "recipes":
            continue
        for imported in imported_rooms(file) - {room, "__version__"}:
            if order.index(imported) > order.index(room):
                wrong.append(f"{relative} imports {imported}")
    return wrong


def test_the_page_lists_every_room() -> None:
    folders = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file()}
    modules = {file.stem for file in PACKAGE.glob("*.py")} - ENTRANCES
    assert set(rooms_in_order()) == folders | modules


def test_rooms_import_only_rooms_above_them() -> None:
    assert wrong_imports(PACKAGE, rooms_in_order()) == []


def test_an_import_of_a_later_room_is_found(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "labels.py").write_text("def late():\n    from manyheads.training.loop import train\n")
    assert wrong_imports(tmp_path, ["data", "training"]) == ["data/labels.py imports training"]


def test_rooms_before_the_encoder_import_no_torch() -> None:
    """Also of kinds and of the predictor's face: an exported model is served without torch."""
    order = rooms_in_order()
    modules = []
    for file in sorted(PACKAGE.rglob("*.py")):
        relative = file.relative_to(PACKAGE).with_suffix("")
        if relative.parts[0] in order[: order.index("encoder")] and relative.name != "__init__":
            modules.append(".".join(["manyheads", *relative.parts]))
    modules += [
        "manyheads.tasks.task",
        "manyheads.tasks.resolve",
        "manyheads.parts.kinds",
        "manyheads.inference.predictor",
    ]
    assert len(modules) > 25
    code = "import importlib, sys\n"
    code += "".join(f"importlib.import_module({module!r})\n" for module in modules)
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

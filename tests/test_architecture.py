"""Rooms import only rooms above them, in functions and for types too; docs/architecture.md holds the order."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from manyheads.registry import parts

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


@pytest.mark.slow
def test_rooms_import_only_rooms_above_them() -> None:
    assert wrong_imports(PACKAGE, rooms_in_order()) == []


def test_an_import_of_a_later_room_is_found(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "labels.py").write_text("def late():\n    from manyheads.training.loop import train\n")
    assert wrong_imports(tmp_path, ["data", "training"]) == ["data/labels.py imports training"]


def named_kinds(package: Path, kinds: set[str]) -> list[str]:
    """Where a module outside the kinds' own room has the name of a kind as a string."""
    named = []
    for file in sorted(package.rglob("*.py")):
        relative = file.relative_to(package)
        if relative.parts[:2] == ("parts", "kinds"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in kinds:
                named.append(f"{relative.as_posix()}:{node.lineno}: {node.value}")
    return named


@pytest.mark.slow
def test_no_other_room_names_a_kind_of_task() -> None:
    """A docstring is longer than a name, so it is never taken for one."""
    kinds = {part.name for part in parts("kinds")}
    assert kinds >= {"classification", "ordinal", "multi-label", "regression"}
    assert named_kinds(PACKAGE, kinds) == []


def test_a_comparison_with_the_name_of_a_kind_is_found(tmp_path: Path) -> None:
    (tmp_path / "parts" / "kinds").mkdir(parents=True)
    (tmp_path / "parts" / "kinds" / "ordinal.py").write_text('name = "ordinal"\n')
    (tmp_path / "tasks.py").write_text('"""An ordinal task."""\nif kind == "ordinal":\n    pass\n')
    assert named_kinds(tmp_path, {"ordinal"}) == ["tasks.py:2: ordinal"]


# what an exported model is served with, beside the rooms before the encoder
WITHOUT_TORCH = (
    "tasks.task",
    "tasks.resolve",
    "parts.kinds",
    "inference.predictor",
    "inference.prediction_files",
    "inference.texts",
    "inference.collector",
)
REPORT = """
import importlib, json, sys
blamed = []
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
    if "torch" in sys.modules:
        blamed.append(name)
        break
print(json.dumps([blamed, "transformers" in sys.modules]))
"""


def first_to_import_torch(modules: list[str]) -> tuple[list[str], bool]:
    """The first of the modules after which torch is imported, and whether transformers is after all of them."""
    run = subprocess.run(
        [sys.executable, "-c", REPORT, json.dumps(modules)], capture_output=True, text=True, check=True
    )
    blamed, has_transformers = json.loads(run.stdout)
    return blamed, has_transformers


@pytest.mark.slow
def test_rooms_before_the_encoder_import_no_torch() -> None:
    """It takes seconds to import: reading recipes, data and tokens must not wait for it."""
    order = rooms_in_order()
    modules = []
    for file in sorted(PACKAGE.rglob("*.py")):
        relative = file.relative_to(PACKAGE).with_suffix("")
        if relative.parts[0] in order[: order.index("encoder")] and relative.name != "__init__":
            modules.append(".".join(["manyheads", *relative.parts]))
    modules += [f"manyheads.{name}" for name in WITHOUT_TORCH]
    assert len(modules) > 25
    listed = ("tokens.packing", "storage.cache", "data.dataset", "errors", "registry", "seeding", "console")
    assert {f"manyheads.{name}" for name in listed} <= set(modules)
    assert first_to_import_torch(modules)[0] == []
    assert first_to_import_torch(["manyheads.errors", "manyheads.encoder.loading"])[0] == ["manyheads.encoder.loading"]


@pytest.mark.slow
def test_what_serves_an_exported_model_imports_neither_torch_nor_transformers() -> None:
    assert first_to_import_torch([f"manyheads.{name}" for name in WITHOUT_TORCH]) == ([], False)

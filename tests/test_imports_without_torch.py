"""Reading recipes, data and tokens must not wait for torch, which takes seconds to import."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys

import manyheads

PACKAGES = ("storage", "config", "data", "tokens")
MODULES = ("errors", "registry", "seeding", "console", "tasks.task")

REPORT = """
import importlib, json, sys
blamed = []
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
    if "torch" in sys.modules:
        blamed.append(name)
        break
print(json.dumps(blamed))
"""


def modules() -> list[str]:
    names = [f"manyheads.{name}" for name in MODULES]
    for package in PACKAGES:
        location = [os.path.join(path, package) for path in manyheads.__path__]  # noqa: PTH118  (pkgutil takes strings)
        names += [module.name for module in pkgutil.iter_modules(location, prefix=f"manyheads.{package}.")]
    return names


def test_these_modules_do_not_import_torch() -> None:
    names = modules()
    assert {"manyheads.tokens.packing", "manyheads.storage.cache", "manyheads.data.dataset"} <= set(names)
    run = subprocess.run(
        [sys.executable, "-c", REPORT, json.dumps(names)], capture_output=True, text=True, check=True, env=os.environ
    )
    assert json.loads(run.stdout) == [], "imports torch"

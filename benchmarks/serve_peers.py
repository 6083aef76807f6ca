"""Other servers of embeddings, each in an environment of its own: they ask for other packages than this project has."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
CONSTRAINTS = PROJECT / "constraints.txt"  # the same torch for all
LITSERVE_API = Path(__file__).with_name("serve_litserve.py")


class NotInstalled(Exception):
    """Why a peer is not there."""


@dataclass(frozen=True)
class Peer:
    name: str
    package: str
    requirements: tuple[str, ...]
    program: str  # of its environment
    arguments: tuple[str, ...]  # FOLDER stands for the encoder's, PORT for the port

    @property
    def environment(self) -> Path:
        return PROJECT / f".venv-{self.package}"

    @property
    def python(self) -> str:
        return str(self.environment / "bin" / "python")

    def command(self, encoder_folder: Path) -> list[str]:
        arguments = [part.replace("FOLDER", str(encoder_folder)) for part in self.arguments]
        return [str(self.environment / "bin" / self.program), *arguments]

    def install(self) -> None:
        """Once."""
        mark = self.environment / ".installed"
        if mark.exists():
            return
        print(f"installing {self.name} into {self.environment.name}", file=sys.stderr)
        _run([sys.executable, "-m", "venv", str(self.environment)])
        (self.environment / ".gitignore").write_text("*\n")
        pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "-c", str(CONSTRAINTS), *self.requirements])
        mark.touch()

    def versions(self) -> str:
        """Its own, and of the packages that compute."""
        names = [self.requirements[0].partition("=")[0].partition("[")[0], "torch", "transformers"]
        code = f"from importlib.metadata import version\nfor name in {names}: print(name, version(name))"
        return ", ".join(_run([self.python, "-c", code]).splitlines())


def _run(command: list[str]) -> str:
    try:
        finished = subprocess.run(command, capture_output=True, text=True)
    except OSError as fault:
        raise NotInstalled(str(fault)) from None
    if finished.returncode:
        lines = [line for line in finished.stderr.splitlines() if not line.startswith("WARNING")]
        raise NotInstalled((lines or [f"exit code {finished.returncode}"])[-1])
    return finished.stdout


PEERS = (
    Peer(
        "Infinity",
        "infinity",
        ("infinity-emb[torch,server]==0.0.78",),
        "infinity_emb",
        (
            *("v2", "--model-id", "FOLDER", "--engine", "torch", "--device", "cpu"),
            *("--dtype", "float32", "--batch-size", "32", "--no-bettertransformer", "--no-compile"),
            *("--url-prefix", "/v1", "--host", "127.0.0.1", "--port", "PORT", "--log-level", "error"),
        ),
    ),
    Peer(
        "LitServe",
        "litserve",
        ("litserve==0.2.19", "torch", "transformers==5.23.0"),
        "python",
        (str(LITSERVE_API), "FOLDER", "PORT"),
    ),
)

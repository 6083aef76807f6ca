"""What this machine offers: versions, threads, devices, encoders."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("manyheads", "torch", "transformers", "tokenizers", "safetensors", "datasets", "accelerate", "pydantic")


def examine() -> dict[str, str]:
    """Each thing looked at, and what was found."""
    import torch

    from manyheads.encoder.loading import KNOWN, locate, verify
    from manyheads.errors import UserError
    from manyheads.storage.cache import cache_folder

    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    found["processors"] = str(os.cpu_count())
    found["torch threads"] = str(torch.get_num_threads())
    cuda = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    mps = ["Apple MPS"] if torch.backends.mps.is_available() else []
    found["devices"] = ", ".join(["cpu", *cuda, *mps])
    found["cache"] = str(cache_folder())
    for name, known in KNOWN.items():
        try:
            location = locate(name)
            verify(location.folder / "model.safetensors", known.sha256)
            found[f"encoder {name}"] = f"{location.where}, checksum right: {location.folder}"
        except UserError as fault:
            found[f"encoder {name}"] = str(fault).replace("\n", " ")
    return found

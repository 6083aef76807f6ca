"""What this machine offers: versions, threads, devices, encoders."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("manyheads", "torch", "transformers", "tokenizers", "safetensors", "datasets", "accelerate", "pydantic")


def examine() -> dict[str, str]:
    """Everything that is looked at, and its value."""
    import torch

    from manyheads.storage.cache import cache_folder

    facts = {"python": platform.python_version()}
    for package in PACKAGES:
        facts[package] = _package_version(package)
    facts["CPUs"] = str(os.cpu_count())
    facts["torch threads"] = str(torch.get_num_threads())
    devices = ["cpu"]
    for device_number in range(torch.cuda.device_count()):
        devices.append(torch.cuda.get_device_name(device_number))
    if torch.backends.mps.is_available():
        devices.append("Apple MPS")
    facts["devices"] = ", ".join(devices)
    facts["cache"] = str(cache_folder())
    return {**facts, **_examine_encoders()}


def _package_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _examine_encoders() -> dict[str, str]:
    """Where each known encoder is, and whether its weights are what they should be."""
    from manyheads.encoder.loading import KNOWN, locate, verify
    from manyheads.errors import UserError

    facts: dict[str, str] = {}
    for name, known_encoder in KNOWN.items():
        try:
            location = locate(name)
            verify(location.folder / "model.safetensors", known_encoder.sha256)
            facts[f"encoder {name}"] = f"{location.where}, checksum right: {location.folder}"
        except UserError as fault:
            facts[f"encoder {name}"] = str(fault).replace("\n", " ")
    return facts

"""What a model folder must be before anything in it is used.

A model folder may come from anywhere: a colleague, a download. It is data: nothing in it names code to run or a file
outside it, and whatever is wrong with it is one UserError with the file and the reason. Nothing here needs torch.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manyheads.config.plugins import explain_fault
from manyheads.errors import UserError
from manyheads.storage.files import CHECKSUMS, check_folder

MODEL_FILE = "manyheads.json"
HEADS_FILE = "heads.safetensors"
NEEDED_FILES = (MODEL_FILE, HEADS_FILE, "config.json", "tokenizer.json")
# keys of a config.json by which transformers fetches or runs code, or another model than this one
CODE_KEYS = frozenset(
    {
        "auto_map",
        "trust_remote_code",
        "attn_implementation",
        "_attn_implementation",
        "experts_implementation",
        "_experts_implementation",
        "quantization_config",
        "base_model_name_or_path",
    }
)
LARGEST_JSON = 64_000_000  # bytes
SHOWN = 200  # characters of a foreign text in a message


def refused(file: Path, reason: str, code: str = "invalid-model") -> UserError:
    return UserError(f"{file}: {printable(reason)}", code=code)


def printable(text: str, longest: int = 10 * SHOWN) -> str:
    """A text of unknown origin for a terminal: no control characters, not endless."""
    letters = []
    for letter in text[:longest]:
        letters.append(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1])
    return "".join(letters) + ("…" if len(text) > longest else "")


@contextmanager
def guarded(file: Path, code: str = "invalid-model") -> Iterator[None]:
    """Whatever a library raises about a file of unknown origin is a UserError that names the file."""
    try:
        yield
    except UserError:
        raise
    except BaseException as fault:
        if not isinstance(fault, Exception) and type(fault).__name__ != "PanicException":  # how Rust libraries fail
            raise
        explained = explain_fault(fault) if isinstance(fault, Exception) else None
        if explained is not None:
            raise explained from None
        lines = str(fault).strip().splitlines() or [""]
        raise refused(file, f"{type(fault).__name__}: {lines[0][:SHOWN]}", code) from fault


# --- files ----------------------------------------------------------------------------------------------------------


def check_files(folder: Path, needed: tuple[str, ...] = NEEDED_FILES) -> None:
    """Plain files, all inside the folder, all as they were written."""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such model folder.", code="no-such-model")
    root = os.path.realpath(folder)
    for file in sorted(folder.iterdir()):
        target = os.path.realpath(file)
        if os.path.commonpath([root, target]) != root:
            reason = f"a link to {target}, outside the model folder. Copy the folder with its files (cp -rL)."
            raise refused(file, reason, "unsafe-path")
        if file.exists() and not file.is_file() and not file.is_dir():
            raise refused(file, "not a plain file.", "unsafe-path")
    if (folder / "adapter_config.json").exists():
        raise refused(folder / "adapter_config.json", "it names another model; a model folder holds its own.")
    sums = _check_names(folder)
    for name in needed:
        if name not in sums:
            raise refused(folder / name, f"missing from the model folder, or from its {CHECKSUMS}.", "damaged-model")
    with guarded(folder / CHECKSUMS, "damaged-model"):
        check_folder(folder, code="damaged-model")


def _check_names(folder: Path) -> dict[str, str]:
    """The names in checksums.json, and in the index of a sharded encoder, are files of this folder."""
    file = folder / CHECKSUMS
    if not file.is_file():
        reason = f"not a model folder, or not a whole one: it has no {CHECKSUMS}."
        raise UserError(f"{folder}: {reason}", code="damaged-model")
    sums = read_json(file)
    if not _is_map_of_strings(sums):
        raise refused(file, "expected a map from file names to their sha256.")
    for name in sums:
        if not _is_file_name(name):
            raise refused(file, f"'{name[:SHOWN]}' is not the name of a file in this folder.", "unsafe-path")
        if not (folder / name).is_file():
            raise refused(folder / name, "missing from the model folder.", "damaged-model")
    for index in sorted(folder.glob("*.index.json")):
        content = read_json(index)
        weight_map = content.get("weight_map") if isinstance(content, dict) else None
        if weight_map is None or not _is_map_of_strings(weight_map):
            raise refused(index, "expected a weight_map from tensors to file names.")
        for name in weight_map.values():
            if not _is_file_name(name):
                raise refused(index, f"'{name[:SHOWN]}' is not the name of a file in this folder.", "unsafe-path")
    return sums


def _is_map_of_strings(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _is_file_name(name: str) -> bool:
    """One step down, whichever system reads it."""
    return name not in ("", ".", "..") and name.isprintable() and not set(name) & set("/\\:")


def read_json(file: Path) -> Any:
    """A JSON file of unknown origin: of a sane size, finite, not nested beyond reading."""
    try:
        if file.stat().st_size > LARGEST_JSON:
            raise refused(file, f"larger than {LARGEST_JSON // 1_000_000} MB.")
        return json.loads(file.read_text(encoding="utf-8"), parse_constant=_refuse_constant, parse_float=_finite)
    except OSError as error:
        raise refused(file, f"cannot be read: {error.strerror}.", "damaged-model") from None
    except (ValueError, RecursionError) as fault:
        raise refused(file, f"not valid JSON: {fault}.") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:SHOWN]} is too large")
    return number


def tensor_shapes(folder: Path, pattern: str) -> dict[str, tuple[int, ...]]:
    """Name → shape of every tensor in some of a folder's safetensors files, read from their headers alone."""
    from safetensors import safe_open

    shapes: dict[str, tuple[int, ...]] = {}
    for file in sorted(folder.glob(pattern)):
        with guarded(file, "damaged-model"), safe_open(file, framework="np") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (not a dict)
                header = tensors.get_slice(name)
                if "F" not in header.get_dtype() and not name.endswith("_ids"):
                    raise refused(file, f"tensor '{name[:SHOWN]}' is of {header.get_dtype()}, expected floats.")
                shapes[name] = tuple(header.get_shape())
    return shapes


# --- what the encoder is --------------------------------------------------------------------------------------------


def read_encoder_config(folder: Path, tensor_count: int) -> dict[str, Any]:
    """config.json, if it asks for nothing but an encoder of the size that its weights have."""
    file = folder / "config.json"
    config = read_json(file)
    if not isinstance(config, dict):
        raise refused(file, "expected a JSON object.")
    with guarded(file):  # nested beyond reading
        key = _code_key(config)
    if key is not None:
        raise refused(file, f"'{key}' asks for code, or a model, from elsewhere: a model folder never runs code.")
    for name, value in config.items():
        layers = "layers" in name and isinstance(value, int)
        if layers and not 0 <= value <= tensor_count:
            raise refused(file, f"'{name[:SHOWN]}' is {value}, but its weights have {tensor_count} tensors.")
        if isinstance(value, int) and abs(value) > 2**31:
            raise refused(file, f"'{name[:SHOWN]}' is {value}: not a size.")
    width, heads = config.get("hidden_size"), config.get("num_attention_heads")
    if isinstance(width, int) and isinstance(heads, int) and (heads < 1 or width < 1 or width % heads):
        raise refused(file, f"{heads} attention heads do not divide a hidden_size of {width}.")
    return config


def _code_key(value: Any) -> str | None:
    """The first key, however deep, that would lead out of the folder. None where there is none."""
    if isinstance(value, dict):
        for key in value:
            if key in CODE_KEYS:
                return str(key)
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            key = _code_key(item)
            if key is not None:
                return key
    return None

"""How an encoder was trained to turn token states into one vector, as its folder says it.

modules.json → 1_Pooling/config.json    sentence-transformers' files: the mean, or the first or last token
manyheads.json                          a model folder of ours: as the encoder it was trained from
pooler weights                          [CLS] through the pooler, where that is all there is
none of these                           the mean
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

TrainedPooling = Literal["mean", "first", "last", "pooler"]

# sentence-transformers' names. Those that are missing here (max, weighted means) have no pooling of ours.
MODES: dict[str, TrainedPooling] = {"mean": "mean", "cls": "first", "lasttoken": "last"}
FLAGS: dict[str, TrainedPooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
    "pooling_mode_lasttoken": "last",
}
MODEL_FILE = "manyheads.json"
MODEL_KEY = "trained_pooling"  # of manyheads.json


def find_trained_pooling(folder: Path, has_pooler_weights: bool) -> TrainedPooling:
    """What the encoder in a folder was trained with. Files that say nothing useful are passed over."""
    saved = _read_json(folder / MODEL_FILE)
    if isinstance(saved, dict) and saved.get(MODEL_KEY) in ("mean", "first", "last", "pooler"):
        pooling: TrainedPooling = saved[MODEL_KEY]
        return pooling
    for config_folder in _pooling_folders(folder):
        config = _read_json(folder / config_folder / "config.json")
        if isinstance(config, dict):
            return _read_config(config)
    return "pooler" if has_pooler_weights else "mean"


def _pooling_folders(folder: Path) -> list[str]:
    """Where sentence-transformers keeps the pooling's settings."""
    modules = _read_json(folder / "modules.json")
    folders = []
    if isinstance(modules, list):
        for module in modules:
            if isinstance(module, dict) and str(module.get("type", "")).endswith(".Pooling"):
                folders.append(str(module.get("path", "")))
    return [*folders, "1_Pooling"]


def _read_config(config: dict[str, Any]) -> TrainedPooling:
    mode = config.get("pooling_mode")
    if isinstance(mode, str):
        return MODES.get(mode, "mean")
    for flag, pooling in FLAGS.items():
        if config.get(flag) is True:
            return pooling
    return "mean"


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None

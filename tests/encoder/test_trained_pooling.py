"""Which pooling an encoder was trained with, as the files beside its weights say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from manyheads.config.recipe import EncoderSettings
from manyheads.encoder import load_encoder
from manyheads.encoder.toy import write_toy_encoder
from manyheads.encoder.trained_pooling import find_trained_pooling
from manyheads.parts.pooling import pooling_of

MEAN = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
FIRST = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}


def write_modules(folder: Path, config: Any, path: str = "1_Pooling") -> None:
    modules = [
        {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": path, "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / path).mkdir(exist_ok=True)
    (folder / path / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (MEAN, "mean"),
        (FIRST, "first"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode": "cls"}, "first"),
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode_max_tokens": True}, "mean"),  # which we do not have
    ],
)
def test_sentence_transformers_files_outrank_a_pooler(tmp_path: Path, config: dict[str, Any], expected: str) -> None:
    write_modules(tmp_path, config)
    assert find_trained_pooling(tmp_path, has_pooler_weights=True) == expected


def test_the_pooling_module_may_stand_elsewhere(tmp_path: Path) -> None:
    write_modules(tmp_path, FIRST, path="2_Pooling")
    assert find_trained_pooling(tmp_path, has_pooler_weights=False) == "first"


def test_without_files_the_pooler_or_the_mean(tmp_path: Path) -> None:
    assert find_trained_pooling(tmp_path, has_pooler_weights=True) == "pooler"
    assert find_trained_pooling(tmp_path, has_pooler_weights=False) == "mean"
    (tmp_path / "modules.json").write_text("{damaged")
    assert find_trained_pooling(tmp_path, has_pooler_weights=False) == "mean"


def test_a_model_folder_keeps_what_its_encoder_was_trained_with(tmp_path: Path) -> None:
    (tmp_path / "manyheads.json").write_text(json.dumps({"trained_pooling": "first"}))
    assert find_trained_pooling(tmp_path, has_pooler_weights=True) == "first"
    (tmp_path / "manyheads.json").write_text(json.dumps({"trained_pooling": "anything"}))
    assert find_trained_pooling(tmp_path, has_pooler_weights=True) == "pooler"


@pytest.mark.slow
def test_the_default_encoder_is_pooled_by_its_mean() -> None:
    encoder = load_encoder(EncoderSettings()).encoder
    assert encoder.has_pooler_weights, "weights that its training never used"
    assert pooling_of(encoder).name == "mean"


def test_a_bert_with_a_pooler_starts_from_it(tmp_path: Path) -> None:
    folder = write_toy_encoder(tmp_path / "bert")
    for file in (folder / "1_Pooling" / "config.json", folder / "modules.json"):
        file.unlink()
    pooling = pooling_of(load_encoder(EncoderSettings(name=str(folder))).encoder)
    assert (pooling.name, pooling.options) == ("head-pooler", {"start": "encoder"})

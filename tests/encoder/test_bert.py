"""minBERT over packed tokens against transformers' BertModel: outputs, gradients, independence of the batch."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertModel

from conftest import write_toy_encoder
from manyheads.config.recipe import EncoderSettings
from manyheads.encoder import onednn
from manyheads.encoder.bert import Bert
from manyheads.encoder.hf_names import to_hugging_face
from manyheads.encoder.in_place import PIECE
from manyheads.encoder.loading import load_encoder
from manyheads.tokens.packing import PackedTokens, PositionsNeeded, Sequence, pack

TOY, REAL = "toy", "all-MiniLM-L6-v2"
SLOW_REAL = pytest.param(REAL, marks=pytest.mark.slow)
LENGTHS = (7, 1, 512, 30, 7, 12, 100)
OUTPUT = {torch.float32: 1e-5, torch.float64: 1e-10}
GRADIENT = {torch.float32: 1e-4, torch.float64: 1e-9}


@pytest.fixture(scope="module")
def long_toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_encoder(tmp_path_factory.mktemp("long") / "encoder", max_position_embeddings=512)


@cache
def load_both(name: str) -> tuple[Bert, BertModel]:
    loaded = load_encoder(EncoderSettings(name=name))
    assert isinstance(loaded.encoder, Bert)
    # eager attention: an implementation that shares nothing with ours
    theirs = BertModel.from_pretrained(loaded.found.folder, attn_implementation="eager")
    return loaded.encoder.eval(), theirs.eval()


@pytest.fixture(params=[TOY, SLOW_REAL])
def both(request: pytest.FixtureRequest, long_toy: Path) -> tuple[Bert, BertModel]:
    """A copy of its own for each test: dtypes are changed, and gradients left behind."""
    return deepcopy(load_both(str(long_toy) if request.param == TOY else request.param))


def random_sequences(
    vocabulary: int, lengths: tuple[int, ...] = LENGTHS, positions_needed: PositionsNeeded = "all"
) -> list[Sequence]:
    draw = np.random.default_rng(0)
    return [Sequence(draw.integers(5, vocabulary, n), draw.integers(0, 2, n), positions_needed) for n in lengths]


def states_of(output: torch.Tensor, tokens: PackedTokens, which: int) -> torch.Tensor:
    first = int(tokens.kept_starts[which])
    return output[first : first + int(tokens.kept_lengths[which])]


def run_theirs(model: BertModel, sequence: Sequence) -> torch.Tensor:
    ids, segments = torch.tensor(sequence.ids)[None], torch.tensor(sequence.segments)[None]
    return model(input_ids=ids, token_type_ids=segments).last_hidden_state[0]


@pytest.mark.numeric
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_states_equal_transformers(both: tuple[Bert, BertModel], dtype: torch.dtype) -> None:
    ours, theirs = (model.to(dtype) for model in both)
    sequences = random_sequences(ours.config.vocab_size)
    tokens = pack(sequences)
    with torch.no_grad():
        output = ours(tokens)
        for i, sequence in enumerate(sequences):
            worst = (states_of(output, tokens, i) - run_theirs(theirs, sequence)).abs().max()
            assert worst < OUTPUT[dtype], f"sequence of length {len(sequence.ids)}"


@pytest.mark.numeric
@pytest.mark.parametrize("positions_needed", ["all", "first", "last"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_equal_transformers(
    both: tuple[Bert, BertModel], dtype: torch.dtype, positions_needed: PositionsNeeded
) -> None:
    ours, theirs = (model.to(dtype) for model in both)
    # 11 shares a block with the 9s and 3 with 1, padded; 40 and 17 stand alone
    sequences = random_sequences(ours.config.vocab_size, (9, 1, 40, 9, 17, 11, 3), positions_needed)
    rows = {"all": slice(None), "first": slice(0, 1), "last": slice(-1, None)}[positions_needed]
    tokens = pack(sequences)
    output = ours(tokens)
    probe = torch.randn(output.shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    (output * probe).sum().backward()
    for i, sequence in enumerate(sequences):
        (run_theirs(theirs, sequence)[rows] * states_of(probe, tokens, i)).sum().backward()
    found = {name: one.grad for name, one in ours.named_parameters() if one.grad is not None}
    mine = to_hugging_face(found)
    expected = {name: one.grad for name, one in theirs.named_parameters() if one.grad is not None}
    assert mine.keys() == expected.keys()
    largest = max(float(one.norm()) for one in expected.values())
    for name, gradient in expected.items():
        # relative to the tensor's own norm; a gradient that is zero in exact arithmetic (the keys' bias) has only noise
        scale = max(float(gradient.norm()), 1e-3 * largest)
        assert float((mine[name] - gradient).norm()) / scale < GRADIENT[dtype], name


@pytest.mark.numeric
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sequence_does_not_depend_on_its_batch(both: tuple[Bert, BertModel], dtype: torch.dtype) -> None:
    ours = both[0].to(dtype)
    sequences = random_sequences(ours.config.vocab_size)
    together = pack(sequences)
    with torch.no_grad():
        output = ours(together)
        for i, sequence in enumerate(sequences):
            alone = pack([sequence])
            worst = (states_of(output, together, i) - states_of(ours(alone), alone, 0)).abs().max()
            assert worst < OUTPUT[dtype]


@pytest.mark.numeric
def test_kept_rows_equal_the_same_rows_of_all(both: tuple[Bert, BertModel]) -> None:
    ours = both[0].double()
    keeps: tuple[PositionsNeeded, ...] = ("first", "all", "last", "first", "all", "last", "first")
    whole = random_sequences(ours.config.vocab_size)
    some = pack(
        Sequence(one.ids, one.segments, positions_needed) for one, positions_needed in zip(whole, keeps, strict=True)
    )
    every = pack(whole)
    with torch.no_grad():
        few, full = ours(some), ours(every)
    assert len(few) < len(full)
    for i, positions_needed in enumerate(keeps):
        expected = states_of(full, every, i)
        expected = {"first": expected[:1], "last": expected[-1:], "all": expected}[positions_needed]
        assert torch.allclose(states_of(few, some, i), expected, atol=1e-10, rtol=0)


@pytest.mark.numeric
def test_dropout_is_on_while_training_only(long_toy: Path) -> None:
    settings = EncoderSettings(name=str(long_toy), dropout=0.0, attention_dropout=0.5)
    encoder = load_encoder(settings).encoder
    tokens = pack(random_sequences(40, (20, 20)))
    encoder.train()
    assert not torch.equal(encoder(tokens), encoder(tokens)), "attention dropout draws anew"
    encoder.eval()
    assert torch.equal(encoder(tokens), encoder(tokens))


def test_saved_encoder_is_what_was_loaded(long_toy: Path, tmp_path: Path) -> None:
    encoder = load_encoder(EncoderSettings(name=str(long_toy))).encoder
    encoder.save(tmp_path)
    again = load_encoder(EncoderSettings(name=str(tmp_path)))
    assert (again.missing, again.unexpected) == ((), ())
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(tensor, again.encoder.state_dict()[name]), name


@pytest.mark.numeric
@pytest.mark.parametrize("both", [TOY], indirect=True)
@pytest.mark.parametrize("positions_needed", ["all", "first"])
def test_without_gradients_layers_work_in_place_and_say_the_same(
    both: tuple[Bert, BertModel], positions_needed: PositionsNeeded
) -> None:
    ours = both[0].double()
    tokens = pack(random_sequences(ours.config.vocab_size, LENGTHS * 4, positions_needed))
    assert len(tokens.ids) > 2 * PIECE
    plainly = ours(tokens)
    embedded = ours.embed(tokens).detach()
    before = embedded.clone()
    with torch.no_grad():
        in_place = ours.encode(embedded, tokens)
    torch.testing.assert_close(in_place, plainly, rtol=0, atol=1e-12)
    assert torch.equal(embedded, before), "what was given is left alone"


@pytest.mark.numeric
@pytest.mark.parametrize("both", [TOY], indirect=True)
@pytest.mark.parametrize("positions_needed", ["all", "first"])
def test_by_onednn_layers_say_the_same(
    both: tuple[Bert, BertModel], positions_needed: PositionsNeeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever CPU this is: which of the two is faster is another question."""
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("torch without oneDNN")
    ours = both[0]
    tokens = pack(random_sequences(ours.config.vocab_size, LENGTHS * 4, positions_needed))
    embedded = ours.embed(tokens).detach()
    before = embedded.clone()
    results: list[torch.Tensor] = []
    products: list[int] = []
    quick = onednn.linear

    def counted(*given: Any) -> torch.Tensor:
        products.append(1)
        return quick(*given)

    monkeypatch.setattr(onednn, "linear", counted)
    for by_onednn in (False, True):
        monkeypatch.setattr(onednn, "is_faster", lambda answer=by_onednn: answer)
        with torch.no_grad():
            results.append(ours.encode(embedded, tokens))
        assert bool(products) == by_onednn
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=1e-5)
    assert torch.equal(embedded, before), "what was given is left alone"
    products.clear()
    ours(tokens)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        ours(tokens)
    assert not products, "it knows neither gradients nor autocast"


@pytest.mark.numeric
def test_layers_do_not_work_in_place_where_something_would_be_lost(long_toy: Path) -> None:
    encoder = load_encoder(EncoderSettings(name=str(long_toy))).encoder
    assert isinstance(encoder, Bert)
    tokens = pack(random_sequences(encoder.config.vocab_size))
    with torch.no_grad():
        assert not torch.equal(encoder.train()(tokens), encoder.train()(tokens))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = encoder.eval()(tokens)
        torch.testing.assert_close(half.float(), encoder(tokens), rtol=0, atol=0.1)
        still = encoder(tokens)
        encoder.layers[0].dropout.train()  # dropout in evaluation, to see how sure a model is
        assert not torch.equal(encoder(tokens), still)
        encoder.eval()
        heard: list[torch.Tensor] = []
        handle = encoder.layers[1].up.register_forward_hook(lambda *given: heard.append(given[2]))
        encoder(tokens)
        handle.remove()
        assert len(heard) == 1
        encoder.layers[1].down = torch.nn.Sequential(encoder.layers[1].down)
        torch.testing.assert_close(encoder(tokens), still, rtol=0, atol=1e-5)

"""Pair encodings against vectors worked out by hand, and how they frame the sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from building import a_task, toy_model
from manyheads.config.part import PartConfig
from manyheads.registry import find
from manyheads.storage.strings import Strings
from manyheads.tokens.column import tokenise_once
from manyheads.tokens.packing import pack
from manyheads.tokens.tokenizer import Tokenizer

pytestmark = pytest.mark.numeric
# two pairs: u = (3, 4), v = (4, −3) are orthogonal; u = (1, 2), v = (2, 4) are parallel
POOLED = torch.tensor([[3.0, 4.0], [4.0, -3.0], [1.0, 2.0], [2.0, 4.0]], dtype=torch.float64)
EXPECTED = {
    "bi-concat": [[3, 4, 4, -3], [1, 2, 2, 4]],
    "bi-siamese": [[3, 4, 4, -3, 1, 7], [1, 2, 2, 4, 1, 2]],
    "bi-cosine-feature": [[3, 4, 4, -3, 0], [1, 2, 2, 4, 1]],
    "bi-features": [[3, 4, 4, -3, 1, 7, 12, -12, 0], [1, 2, 2, 4, 1, 2, 2, 8, 1]],
    "bi-cosine": [[0.5], [1]],  # (cos + 1)/2
    "bi-scaled-cosine": [[0], [1]],  # cos − 1 + 1 where a is 1
}


@pytest.mark.parametrize("name", EXPECTED)
def test_features_by_hand(name: str) -> None:
    encoding = find("encodings", name).factory(2).double()
    found = encoding(POOLED)
    assert torch.allclose(found, torch.tensor(EXPECTED[name], dtype=torch.float64), atol=1e-12)
    assert found.shape[1] == encoding.features


def test_a_joint_input_beside_both_sentences_by_hand() -> None:
    pooled = torch.tensor(
        [[9.0, 8.0], [3.0, 4.0], [4.0, -3.0], [7.0, 6.0], [1.0, 2.0], [2.0, 4.0]], dtype=torch.float64
    )
    found = find("encodings", "cross-bi").factory(2).double()(pooled)
    expected = [[9, 8, *EXPECTED["bi-features"][0]], [7, 6, *EXPECTED["bi-features"][1]]]
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), atol=1e-12)


def test_cosine_of_a_zero_vector_is_zero_not_a_fault() -> None:
    encoding = find("encodings", "bi-cosine-feature").factory(3)
    assert encoding(torch.zeros(2, 3))[0, -1].item() == 0.0


def test_the_norms_are_guarded_together_as_the_papers_write_it() -> None:
    """u·v / max(‖u‖‖v‖, ε): two equal vectors of norm 1e-5 have 1e-10 / 1e-8."""
    u = torch.tensor([[1e-5, 0.0]], dtype=torch.float64)
    found = find("encodings", "bi-cosine-feature").factory(2)(torch.cat([u, u]))
    assert found[0, -1].item() == pytest.approx(0.01)
    zero = torch.zeros(2, 3, requires_grad=True)
    find("encodings", "bi-cosine").factory(3)(zero).sum().backward()
    assert zero.grad is not None
    assert torch.isfinite(zero.grad).all()


def test_how_sentences_are_framed(toy_encoder: Path) -> None:
    special_tokens = Tokenizer(toy_encoder).special_tokens
    first, second = np.array([10, 11, 12]), np.array([20, 21])
    cls, sep = int(special_tokens.start[0]), int(special_tokens.end[0])
    (ids, segments), *more = find("encodings", "cross-nosep").factory(2).inputs((first, second), special_tokens, 64)
    assert ids.tolist() == [cls, 10, 11, 12, 20, 21, sep]
    assert segments.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert not more
    plain = find("encodings", "cross-nosep").factory(2, segments=False).inputs((first, second), special_tokens, 64)
    assert plain[0][1].sum() == 0
    both = find("encodings", "bi-concat").factory(2).inputs((first, second), special_tokens, 4)
    assert [ids.tolist() for ids, _ in both] == [[cls, 10, 11, sep], [cls, 20, 21, sep]]
    assert all(segments.sum() == 0 for _, segments in both)


CLS, SEP = 2, 3  # of the toy's tokenizer
FIRST, SECOND = np.array([10, 11, 12, 13]), np.array([20, 21])


@pytest.mark.parametrize(
    ("name", "special_tokens", "ids", "segments"),
    [
        ("cross", "once", [CLS, 10, 11, 12, 13, SEP, 20, 21, SEP], [0] * 6 + [1] * 3),
        ("cross", "each", [CLS, 10, 11, 12, 13, SEP, SEP, CLS, 20, 21, SEP], [0] * 7 + [1] * 4),
        ("cross-nosep", "once", [CLS, 10, 11, 12, 13, 20, 21, SEP], [0] * 5 + [1] * 3),
        ("cross-nosep", "each", [CLS, 10, 11, 12, 13, SEP, CLS, 20, 21, SEP], [0] * 6 + [1] * 4),
    ],
)
def test_ids_of_a_pair_by_hand(
    name: str, special_tokens: str, ids: list[int], segments: list[int], toy_encoder: Path
) -> None:
    frame = Tokenizer(toy_encoder).special_tokens
    encoding = find("encodings", name).factory(2, special_tokens=special_tokens)
    ((found, found_segments),) = encoding.inputs((FIRST, SECOND), frame, 64)
    assert (found.tolist(), found_segments.tolist()) == (ids, segments)
    plain = find("encodings", name).factory(2, special_tokens=special_tokens, segments=False)
    ((found, found_segments),) = plain.inputs((FIRST, SECOND), frame, 64)
    assert (found.tolist(), found_segments.tolist()) == (ids, [0] * len(ids))
    length = encoding.untruncated_length((np.array([4]), np.array([2])), frame)
    assert length.tolist() == [len(ids)]


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("cross", [CLS, 10, 11, SEP, SEP, CLS, 20, SEP]),  # room for 3 of 6
        ("cross-nosep", [CLS, 10, 11, SEP, CLS, 20, 21, SEP]),  # room for 4 of 6
    ],
)
def test_a_pair_framed_twice_is_cut_within_its_sentences(name: str, ids: list[int], toy_encoder: Path) -> None:
    """The longer sentence first, as ever; all special tokens stay."""
    encoding = find("encodings", name).factory(2, special_tokens="each")
    ((found, segments),) = encoding.inputs((FIRST, SECOND), Tokenizer(toy_encoder).special_tokens, 8)
    assert found.tolist() == ids
    assert segments.tolist() == [0] * (ids.index(CLS, 1)) + [1] * (8 - ids.index(CLS, 1))


def test_sentences_framed_apart_are_the_ids_of_both_one_after_the_other(toy_encoder: Path) -> None:
    """What a tokenizer gives for each sentence, joined; positions run on, so the second [CLS] is no first token."""
    tokenizer = Tokenizer(toy_encoder)
    texts = ["the film was dull", "not very good"]
    task = a_task(encoding=PartConfig(name="cross-nosep", options={"special_tokens": "each", "segments": False}))
    model = toy_model(toy_encoder, [task]).eval()
    columns = tuple(tokenise_once(Strings.of([text]), tokenizer) for text in texts)
    (sequence,) = model.inputs("task", columns, 0)
    both = [number for text in texts for number in tokenizer.backend.encode(text).ids]
    assert sequence.ids.tolist() == both
    packed = pack([sequence, sequence])
    assert packed.positions.tolist() == [*range(len(both))] * 2
    assert packed.segments.sum() == 0


def test_scaled_cosine_learns_its_slope_and_clips() -> None:
    """u = (1, 0), v = (0.6, 0.8): cos = 0.6, so a·(0.6 − 1) + 1."""
    pooled = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    for start, expected, slope in ((0.5, 0.8, -0.4), (2.0, 0.2, -0.4), (3.0, 0.0, 0.0)):
        encoding = find("encodings", "bi-scaled-cosine").factory(2, start=start)
        found = encoding(pooled)
        assert found.item() == pytest.approx(expected, abs=1e-6)
        found.sum().backward()
        assert encoding.a.grad.item() == pytest.approx(slope, abs=1e-6)
    fixed = find("encodings", "bi-scaled-cosine").factory(2, start=2.0, learnable=False)
    assert fixed(pooled).item() == pytest.approx(0.2, abs=1e-6)
    assert list(fixed.parameters()) == []
    assert fixed.state_dict() == {"a": torch.tensor(2.0)}, "it is saved with the model"
    half, plain = find("encodings", "bi-scaled-cosine").factory(2, start=0.5), find("encodings", "bi-cosine").factory(2)
    random = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(half(random), plain(random), atol=1e-6), "bi-cosine is a = 1/2"


def test_shared_layer_by_hand() -> None:
    """W picks u₀ − v₁, |u − v|₀ and −cos out of [u; v; |u − v|; cos]; leaky relu keeps 0.01 of what is negative."""
    encoding = find("encodings", "bi-shared").factory(2, units=3).double()
    encoding.layer.double()
    weight = torch.zeros(3, 7, dtype=torch.float64)
    weight[0, 0], weight[0, 3], weight[1, 4], weight[2, 6] = 1, -1, 1, -1
    with torch.no_grad():
        encoding.layer.weight.copy_(weight)
        encoding.layer.bias.copy_(torch.tensor([0.0, 0.5, 0.0]))
    expected = torch.tensor([[6, 1.5, 0], [-0.03, 1.5, -0.01]], dtype=torch.float64)
    assert torch.allclose(encoding(POOLED), expected, atol=1e-9)
    assert list(encoding.parameters()) == [], "the layer belongs to the group"

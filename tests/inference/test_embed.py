"""Embeddings of texts: those of transformers' own encoder over padded batches, in order, under any token budget."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from building import a_task, toy_model
from manyheads import Predictor, UserError
from manyheads.inference.embeddings import embed_texts

TEXTS = [
    "the film was dull",
    "a good book",
    "one dog runs " * 40,
    "red",
    "a very good meal in an old hotel",
    "a good book",
]


def padded_means(folder: Path, texts: list[str]) -> np.ndarray:
    """Σ m_t·h_t / Σ m_t by transformers, with m the mask of a padded batch."""
    tokenizer, encoder = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval().double()
    batch = tokenizer(texts, padding=True, truncation=True, max_length=64, return_tensors="pt")
    assert batch["attention_mask"].min() == 0, "some texts are padded"
    with torch.no_grad():
        states = encoder(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None].double()
    return ((states * mask).sum(1) / mask.sum(1)).numpy()


@pytest.mark.slow
@pytest.mark.numeric
def test_embeddings_are_mean_states_in_the_order_of_the_texts(saved_model: Path) -> None:
    predictor = Predictor.open(saved_model)
    embeddings = predictor.embed(TEXTS)
    assert (embeddings.shape, embeddings.dtype) == ((6, 32), np.float32)
    assert embeddings == pytest.approx(padded_means(saved_model, TEXTS), abs=1e-5)
    few_tokens = Predictor.open(saved_model, tokens_per_pass=16).embed(TEXTS)
    assert few_tokens == pytest.approx(embeddings, abs=1e-6)
    normalized = predictor.embed(TEXTS, normalize=True)
    assert normalized.dtype == np.float32
    assert np.linalg.norm(normalized, axis=1) == pytest.approx(np.ones(6), abs=1e-6)
    assert normalized == pytest.approx(embeddings / np.sqrt((embeddings**2).sum(1))[:, None], abs=1e-6)
    assert predictor.embed([]).shape == (0, 32)


def test_what_embed_refuses(saved_model: Path) -> None:
    predictor = Predictor.open(saved_model)
    for texts in ([("a", "b")], ["a", ("a", "b")], "a film", [" "], [3]):
        with pytest.raises(UserError) as fault:
            predictor.embed(texts)  # type: ignore[arg-type]
        assert fault.value.code == "bad-text"
    with pytest.raises(UserError, match="input 2: embed takes one text, found 2"):
        predictor.embed(["a", ("a", "b")])  # type: ignore[list-item]


@pytest.mark.numeric
def test_examples_of_a_pair_task_are_the_mean_over_the_tokens_of_both_texts(toy_encoder: Path) -> None:
    model = toy_model(toy_encoder, [a_task(encoding="bi-siamese")])
    pairs = [("the film was dull", "red"), ("a good book", "one dog runs")]
    first, second = (
        padded_means(toy_encoder, [*side, "a very long text " * 9])[:2] for side in zip(*pairs, strict=True)
    )
    tokenizer = AutoTokenizer.from_pretrained(toy_encoder)
    counts = np.array([[len(tokenizer(text)["input_ids"]) for text in pair] for pair in pairs])
    expected = (first * counts[:, :1] + second * counts[:, 1:]) / counts.sum(axis=1, keepdims=True)
    assert embed_texts(model, model.encoder, "task", pairs) == pytest.approx(expected, abs=1e-5)

"""How dev sentences lie to each other before and after training, and what a report says of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from building import CLASSES, SIDES, a_task, toy_model
from manyheads import Run, load_recipe, train
from manyheads.inference.embeddings import embed_sentences, embed_texts
from manyheads.reports.facts import RunFacts
from manyheads.reports.findings import find_problems, nothing_found
from manyheads.reports.headlines import headlines
from manyheads.reports.pages.run import run_report
from manyheads.reports.sentence_space import SentenceSpace, compare_spaces, pair_cosines

KEPT = SentenceSpace(cosine_before=0.1, cosine_after=0.15, rank_correlation=0.9)
OTHER = SentenceSpace(cosine_before=0.1, cosine_after=0.3, rank_correlation=0.0)
COLLAPSED = SentenceSpace(cosine_before=0.1, cosine_after=0.9, rank_correlation=0.17)


def test_pair_cosines_by_hand() -> None:
    vectors = np.array([[3.0, 4.0], [10.0, 0.0], [0.0, -2.0]])
    assert pair_cosines(vectors).tolist() == pytest.approx([0.6, -0.8, 0.0])  # of 1 and 2, 1 and 3, 2 and 3


def test_a_sentence_alone_is_a_single_text_whatever_the_tasks_encoding(toy_encoder: Path) -> None:
    single = toy_model(toy_encoder, [a_task(labels=CLASSES, encoding="single")])
    joined = toy_model(toy_encoder, [a_task(labels=CLASSES, encoding="cross")])
    expected = embed_texts(single, single.encoder, "task", [(text,) for text in SIDES[0]])
    assert np.array_equal(embed_sentences(joined, joined.encoder, SIDES[0]), expected)


def test_spaces_are_compared_over_distinct_first_texts(toy_encoder: Path) -> None:
    """Against scipy on vectors made one by one; the second encoder is the first with noise."""
    from scipy.stats import spearmanr

    model = toy_model(toy_encoder, [a_task(labels=CLASSES)])
    first = toy_model(toy_encoder, [a_task(labels=CLASSES)]).encoder
    drawn = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=drawn))
    words = ["film", "dog", "book", "cat", "tea"]
    texts = [(f"the {word} was {number}", "other") for word in words for number in range(5)]
    cosines = []
    for encoder in (first, model.encoder):
        vectors = np.concatenate([embed_sentences(model, encoder, [text]) for text, _ in texts]).astype(np.float64)
        pairs = []
        for one in range(len(texts)):
            for other in range(one + 1, len(texts)):
                norms = np.linalg.norm(vectors[one]) * np.linalg.norm(vectors[other])
                pairs.append(vectors[one] @ vectors[other] / norms)
        cosines.append(np.array(pairs))
    space = compare_spaces(model, first, texts * 2)
    assert space is not None
    assert space.cosine_before == pytest.approx(cosines[0].mean(), abs=1e-5)
    assert space.cosine_after == pytest.approx(cosines[1].mean(), abs=1e-5)
    assert space.rank_correlation == pytest.approx(spearmanr(*cosines)[0], abs=1e-2)
    assert space.rank_correlation < 0.99
    assert compare_spaces(model, first, texts[:19]) is None, "too few to say anything"
    with torch.no_grad():
        model.encoder.layers[-1].norm.weight.zero_()  # every state is now the norm's bias
    lost = compare_spaces(model, first, texts)
    assert lost is not None
    assert (lost.cosine_after, lost.rank_correlation) == pytest.approx((1.0, 0.0), abs=0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spaces", "said"),
    [
        ({"sst": KEPT, "qqp": KEPT}, None),
        (
            {"sst": KEPT, "qqp": OTHER},
            "changed: cosines of dev sentences before and after have a rank correlation of 0.45",
        ),
        ({"sst": COLLAPSED}, "collapsed: cosines of dev sentences before and after have a rank correlation of 0.17"),
        ({}, None),
    ],
    ids=["kept", "other", "collapsed", "unknown"],
)
def test_a_changed_space_is_a_finding(spaces: dict[str, SentenceSpace], said: str | None, smoke_run: Path) -> None:
    facts = RunFacts(smoke_run)
    facts.__dict__["sentence_spaces"] = spaces
    problems = find_problems(facts, headlines(facts))
    findings = [finding for finding in problems if finding.text.startswith("The sentence space")]
    if said is None:
        assert not findings
        assert ("sentences lie" in nothing_found(facts)) == bool(spaces)
        return
    advice = "Do not use best/ for search as it is; `regularise: anchor` keeps the space."
    assert [(finding.text, finding.section) for finding in findings] == [
        (f"The sentence space {said}. {advice}", "representation")
    ]


@pytest.mark.slow
def test_a_page_has_the_figures_of_the_sentence_space(smoke_run: Path) -> None:
    facts = RunFacts(smoke_run)
    assert facts.sentence_spaces, "its dev texts are enough"
    page = run_report(smoke_run).html
    assert 'id="sentence-space"' in page
    space = next(iter(facts.sentence_spaces.values()))
    assert f"{space.rank_correlation:.3f}" in page


@pytest.mark.slow
def test_before_is_the_encoder_that_the_run_started_from(toy_recipe: Callable[..., dict[str, Any]]) -> None:
    """With `init` that is the other run's; where it is gone, the page says so and nothing of the space."""
    short = {"max_steps": 2, "learning_rate": 1e-2}
    first = train(load_recipe(toy_recipe(name="first", training=short)), quiet=True).folder
    second = train(load_recipe(toy_recipe(name="second", training=short, init=str(first))), quiet=True).folder
    encoder = RunFacts(second).first_encoder
    assert encoder is not None
    expected = Run(first).model.encoder.state_dict()
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
    (first / "best").rename(first / "moved")
    facts = RunFacts(second)
    assert facts.sentence_spaces == {}
    assert any("Embeddings are not shown: " in note for note in facts.notes)

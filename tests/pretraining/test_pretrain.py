"""Further pre-training: masking by its rules, the head by transformers' own, the command as a user runs it."""

from __future__ import annotations

import gzip
import hashlib
import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, BertConfig, BertForMaskedLM

from command import check_refused, manyheads, start
from manyheads.config.recipe import EncoderSettings
from manyheads.encoder import load_encoder
from manyheads.pretraining.head import load_head
from manyheads.pretraining.masked_lm import MaskedLanguageModel
from manyheads.pretraining.masking import Vocabulary, mask_tokens
from manyheads.tokens.packing import Sequence
from manyheads.tokens.tokenizer import Tokenizer

RecipeFile = Callable[..., Path]


@pytest.fixture
def vocabulary(toy_encoder: Path) -> Vocabulary:
    return Vocabulary.of(Tokenizer(toy_encoder))


def a_text(toy_encoder: Path, text: str) -> Sequence:
    ids = np.array(Tokenizer(toy_encoder).backend.encode(text).ids)
    return Sequence(ids, np.zeros_like(ids))


# --- masking -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_share_is_hidden_in_berts_proportions(toy_encoder: Path, vocabulary: Vocabulary) -> None:
    text = a_text(toy_encoder, "the film was very good . " * 8)
    draw = np.random.default_rng(0)
    kinds = {"mask": 0, "same": 0, "other": 0}
    hidden = np.zeros(len(text.ids))
    for _ in range(1500):
        changed, where = mask_tokens(text, vocabulary, 0.15, False, draw)
        assert len(where) == round(0.15 * 48)
        assert len(set(where.tolist())) == len(where)
        untouched = np.setdiff1d(np.arange(len(text.ids)), where)
        assert (changed.ids[untouched] == text.ids[untouched]).all()
        hidden[where] += 1
        now, before = changed.ids[where], text.ids[where]
        kinds["mask"] += int((now == vocabulary.mask).sum())
        kinds["same"] += int((now == before).sum())
    total = hidden.sum()
    assert hidden[[0, -1]].sum() == 0, "special tokens are never hidden"
    assert hidden[1:-1].min() > 0.7 * total / 48, "every token has the same chance"
    assert kinds["mask"] / total == pytest.approx(0.8, abs=0.02)
    assert kinds["same"] / total == pytest.approx(0.1, abs=0.02)
    assert not np.isin([0, 1, 2, 3, 4], vocabulary.ordinary).any(), "nor put in"


def test_at_least_one_token_is_hidden_and_texts_of_none_are_left_alone(
    toy_encoder: Path, vocabulary: Vocabulary
) -> None:
    draw = np.random.default_rng(0)
    assert len(mask_tokens(a_text(toy_encoder, "good"), vocabulary, 0.15, False, draw)[1]) == 1
    assert len(mask_tokens(a_text(toy_encoder, "good"), vocabulary, 0.15, True, draw)[1]) == 1
    empty, where = mask_tokens(a_text(toy_encoder, "日"), vocabulary, 0.15, False, draw)
    assert len(where) == 0
    assert len(empty.ids) == 3


def test_whole_words_are_hidden_with_all_their_pieces(toy_encoder: Path, vocabulary: Vocabulary) -> None:
    """'guitarist' is guitar ##i ##s ##t here: never a part of it."""
    text = a_text(toy_encoder, "one guitarist plays the warm guitarist song 17 times")
    pieces = [Tokenizer(toy_encoder).backend.id_to_token(int(one)) for one in text.ids]
    words: list[list[int]] = []
    for location, piece in enumerate(pieces[1:-1], 1):
        if piece.startswith("##"):
            words[-1].append(location)
        else:
            words.append([location])
    assert max(map(len, words)) >= 4
    draw = np.random.default_rng(0)
    sizes = []
    for _ in range(300):
        _, where = mask_tokens(text, vocabulary, 0.3, True, draw)
        found = set(where.tolist())
        sizes.append(len(found))
        assert all(set(word) <= found or not set(word) & found for word in words)
    assert np.mean(sizes) == pytest.approx(0.3 * (len(pieces) - 2), rel=0.35)


# --- the head ----------------------------------------------------------------------------------------------------


@pytest.fixture
def masked_bert(tmp_path: Path, toy_encoder: Path) -> tuple[BertForMaskedLM, Path]:
    """transformers' own model, saved as it saves it, with the toy tokenizer."""
    size = json.loads((toy_encoder / "config.json").read_text())["vocab_size"]
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = BertConfig(vocab_size=size, max_position_embeddings=64, **sizes)
    theirs = BertForMaskedLM(config).eval()
    with torch.no_grad():
        theirs.cls.predictions.bias.normal_()
        theirs.cls.predictions.transform.LayerNorm.weight.normal_()
    theirs.save_pretrained(tmp_path / "mlm")
    (tmp_path / "mlm" / "tokenizer.json").write_bytes((toy_encoder / "tokenizer.json").read_bytes())
    return theirs, tmp_path / "mlm"


def test_the_checkpoints_own_head_is_used_and_equals_transformers(
    masked_bert: tuple[BertForMaskedLM, Path], toy_encoder: Path, vocabulary: Vocabulary
) -> None:
    theirs, folder = masked_bert
    encoder = load_encoder(EncoderSettings(name=str(folder))).encoder
    head, whose = load_head(encoder, folder)
    assert whose == "that of the encoder's own files"
    ours = MaskedLanguageModel(encoder, head).eval()
    draw = np.random.default_rng(3)
    texts = [a_text(toy_encoder, one) for one in ("the film was very good .", "a dog runs", "two men play the guitar")]
    hidden = [mask_tokens(one, vocabulary, 0.3, False, draw) for one in texts]
    scores = ours([one for one, _ in hidden], [where for _, where in hidden])
    first = 0
    for (one, where), text in zip(hidden, texts, strict=True):
        with torch.no_grad():
            expected = theirs(input_ids=torch.tensor(one.ids)[None]).logits[0, torch.from_numpy(where)]
        assert torch.allclose(scores[first : first + len(where)], expected, atol=1e-5), text
        first += len(where)
    assert first == len(scores), "scores of hidden tokens only"


def test_heads_under_older_and_other_names_are_found(masked_bert: tuple[BertForMaskedLM, Path]) -> None:
    """bert-base-uncased calls its norms gamma and beta; RoBERTa's head has names of its own."""
    _, folder = masked_bert
    encoder = load_encoder(EncoderSettings(name=str(folder))).encoder
    expected = load_head(encoder, folder)[0].state_dict()
    tensors = load_file(folder / "model.safetensors")
    older = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): one
             for name, one in tensors.items()}  # fmt: skip
    renamed = {
        "cls.predictions.transform.dense": "lm_head.dense",
        "cls.predictions.transform.LayerNorm": "lm_head.layer_norm",
        "cls.predictions.bias": "lm_head.bias",
    }
    others = {}
    for name, one in tensors.items():
        before = next((key for key in renamed if name.startswith(key)), None)
        others[name.replace(before, renamed[before]) if before else name] = one
    for changed in (older, others):
        assert changed.keys() != tensors.keys()
        save_file(changed, folder / "model.safetensors")
        head, whose = load_head(encoder, folder)
        assert whose == "that of the encoder's own files"
        assert all(torch.equal(one, expected[name]) for name, one in head.state_dict().items())
    half = {name: one for name, one in tensors.items() if "predictions.transform.dense" not in name}
    save_file(half, folder / "model.safetensors")
    assert "a part of one" in load_head(encoder, folder)[1]


def test_an_encoder_without_a_head_gets_a_new_one(toy_encoder: Path) -> None:
    encoder = load_encoder(EncoderSettings(name=str(toy_encoder))).encoder
    head, whose = load_head(encoder, toy_encoder)
    assert whose.startswith("new")
    again, _ = load_head(encoder, toy_encoder)
    assert all(torch.equal(one, other) for one, other in zip(head.parameters(), again.parameters(), strict=True))


# --- the command -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_pretrain_then_train(recipe_file: RecipeFile, toy_data: Path, toy_encoder: Path) -> None:
    file = recipe_file(pretrain={"epochs": 30, "batch_size": 8, "learning_rate": 3e-3, "share": 0.3})
    result = manyheads("pretrain", file)
    assert result.returncode == 0, result.stderr
    folder = toy_data / "runs" / "toy-pretrained" / "encoder"
    assert result.stdout.strip() == str(folder)
    assert "texts: 60 different ones" in result.stderr, "of 36 + 27 train rows, without the 3 to judge by"
    log = [json.loads(line) for line in (folder.parent / "log.jsonl").read_text().splitlines()]
    assert log[-1]["after"]["loss"] < 0.8 * log[0]["before"]["loss"], "other texts are guessed better than before"
    assert AutoModel.from_pretrained(folder).config.hidden_size == 32
    before, after = (load_file(one / "model.safetensors") for one in (toy_encoder, folder))
    assert not torch.equal(after["embeddings.word_embeddings.weight"], before["embeddings.word_embeddings.weight"])
    assert torch.equal(after["pooler.dense.weight"], before["pooler.dense.weight"])
    trained = manyheads("train", file, f"encoder={folder}", "name=after")
    assert trained.returncode == 0, trained.stderr
    further = manyheads("pretrain", file, f"encoder={folder}", "name=further", "pretrain.epochs=1")
    assert "head for masked tokens: that of the encoder's own files" in further.stderr


@pytest.mark.slow
def test_whole_words_files_and_chosen_tasks(recipe_file: RecipeFile, toy_data: Path) -> None:
    lines = "\ufeffa man plays the guitar\n\n" + "".join(f"the dog runs {i}\n" for i in range(30))
    (toy_data / "more.txt.gz").write_bytes(gzip.compress(lines.encode()))
    from_files = manyheads("pretrain", recipe_file(pretrain={"files": ["more.txt"], "whole_words": True}))
    assert "texts: 30 different ones" in from_files.stderr
    assert "15% of whole words are masked" in from_files.stderr
    of_one = manyheads("pretrain", recipe_file(pretrain={"tasks": ["near"]}), "name=one")
    assert "texts: 26 different ones" in of_one.stderr


@pytest.mark.slow
def test_faults_are_said(recipe_file: RecipeFile, toy_data: Path, toy_encoder: Path) -> None:
    check_refused(manyheads("pretrain", recipe_file(pretrain={"tasks": ["nearr"]})), "pretrain.tasks: no task 'nearr'")
    check_refused(manyheads("pretrain", recipe_file(pretrain={"files": ["no.txt"]})), "pretrain.files", "no.txt")
    (toy_data / "empty.txt").write_text("\n")
    check_refused(manyheads("pretrain", recipe_file(pretrain={"files": ["empty.txt"]})), "[no-texts]")
    assert manyheads("pretrain", recipe_file(), "-q").returncode == 0
    check_refused(manyheads("pretrain", recipe_file()), "manyheads resume", "--overwrite", "[run-exists]")
    assert manyheads("pretrain", recipe_file(), "-q", "--overwrite").returncode == 0
    other = toy_data / "runs" / "other-pretrained"
    other.mkdir()
    (other / "precious").write_text("data")
    check_refused(manyheads("pretrain", recipe_file(), "name=other", "--overwrite"), "[not-a-run-folder]")


@pytest.mark.slow
def test_settings_that_do_not_belong_to_it_are_refused_or_said(
    recipe_file: RecipeFile, toy_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_refused(manyheads("pretrain", recipe_file(), "init=runs/a"), "init: ", "[init-not-allowed]")
    both = {"files": "a.txt", "tasks": ["mood"]}
    check_refused(manyheads("pretrain", recipe_file(pretrain=both)), "pretrain.tasks", "[two-text-sources]")
    check_refused(
        manyheads("pretrain", recipe_file(), "encoder.max_length=5000"),
        "encoder.max_length",
        "64",
        "[max-length-too-large]",
    )
    told = manyheads("pretrain", recipe_file(training={"layer_decay": 0.9}), "name=told")
    assert "note: training.layer_decay is for training" in told.stderr
    with monkeypatch.context() as patch:
        patch.setenv("WORLD_SIZE", "2")
        two = manyheads("pretrain", recipe_file())
    check_refused(two, "[wrong-process-count]")
    (toy_data / "runs" / "told-pretrained" / "encoder" / "mlm-head.safetensors").write_bytes(b"broken")
    again = manyheads("pretrain", recipe_file(), f"encoder={toy_data / 'runs' / 'told-pretrained' / 'encoder'}")
    check_refused(again, "mlm-head.safetensors: not a whole safetensors file")


@pytest.mark.slow
def test_stopped_before_its_first_step_it_can_be_begun_anew(recipe_file: RecipeFile, toy_data: Path) -> None:
    """Killed while the untrained head is judged: nothing is left that could be taken for a run."""
    before = "import manyheads.pretraining.run as r, os\nr.Pretrainer.evaluate = lambda self: os._exit(9)"
    assert manyheads("pretrain", recipe_file(), before=before).returncode == 9
    assert not (toy_data / "runs" / "toy-pretrained").exists()
    assert manyheads("pretrain", recipe_file(), "-q").returncode == 0


def test_long_lines_become_several_texts(recipe_file: RecipeFile, toy_data: Path) -> None:
    lines = [f"{' '.join(['the dog runs'] * 30)} {number}" for number in range(6)]  # 90 words and a number each
    (toy_data / "long.txt").write_text("\n".join(lines))
    result = manyheads("pretrain", recipe_file(pretrain={"files": "long.txt"}))
    assert "texts: 7 different ones" in result.stderr, "of 62 tokens the same one, and six others that end differently"


@pytest.mark.slow
def test_loss_and_rate_by_hand(recipe_file: RecipeFile, toy_data: Path) -> None:
    """The mean over hidden tokens, however they are cut into passes; warm-up, then a line to 0."""
    settings = {"max_steps": 4, "batch_size": 16, "learning_rate": 1e-2, "warmup": 0.5}
    logs = []
    still = ("encoder.dropout=0", "encoder.attention_dropout=0")
    for name, tokens in (("one", 8192), ("several", 40)):
        file = recipe_file(pretrain=settings, training={"tokens_per_pass": tokens})
        assert manyheads("pretrain", file, f"name={name}", *still).returncode == 0
        lines = (toy_data / "runs" / f"{name}-pretrained" / "log.jsonl").read_text().splitlines()
        logs.append([one for one in map(json.loads, lines) if one["event"] == "step"])
    assert [one["learning_rate"] for one in logs[0]] == pytest.approx([1e-2 / 3, 2e-2 / 3, 1e-2, 1e-2 / 2])
    for one, other in zip(*logs, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-3)
    size = json.loads((toy_data / "runs" / "one-pretrained" / "encoder" / "config.json").read_text())["vocab_size"]
    assert logs[0][0]["loss"] == pytest.approx(np.log(size), rel=0.1), "an untrained head knows nothing"


def test_pairs_have_the_segments_of_pairs(toy_encoder: Path, vocabulary: Vocabulary) -> None:
    from manyheads.pretraining.texts import _frame
    from manyheads.tokens.tokenizer import Tokenizer

    one = _frame(Tokenizer(toy_encoder), [np.array([9, 10]), np.array([11])], 64)
    assert one.segments.tolist() == [0, 0, 0, 0, 1, 1]


def sums(folder: Path) -> dict[str, str]:
    files = [
        *(folder / "encoder").glob("*.safetensors"),
        *sorted((folder / "checkpoints").iterdir())[-1].glob("*.safe*"),
    ]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_and_resumed_it_ends_with_the_same_bits(
    number: signal.Signals, recipe_file: RecipeFile, toy_data: Path
) -> None:
    settings = {"epochs": 5, "batch_size": 4}
    file = recipe_file(pretrain=settings, checkpoint={"every_steps": 5}, training={"tokens_per_pass": 40})
    assert manyheads("pretrain", file, "name=left", "-q").returncode == 0
    command = start("pretrain", file, "name=cut")
    log = toy_data / "runs" / "cut-pretrained" / "log.jsonl"
    until = time.monotonic() + 60
    while time.monotonic() < until and not (log.is_file() and log.read_text().count('"step", "loss"') > 23):
        time.sleep(0.002)
    command.kill(number)
    assert command.wait().returncode != 0
    result = manyheads("resume", toy_data / "runs" / "cut-pretrained")
    assert result.returncode == 0, result.stderr
    assert "resumed after step" in result.stderr
    assert sums(toy_data / "runs" / "left-pretrained") == sums(toy_data / "runs" / "cut-pretrained")
    losses = [
        [json.loads(line).get("loss") for line in (toy_data / "runs" / f"{name}-pretrained" / "log.jsonl").open()]
        for name in ("left", "cut")
    ]
    assert losses[0] == losses[1]


def test_changed_texts_are_not_resumed(recipe_file: RecipeFile, toy_data: Path) -> None:
    file = recipe_file(pretrain={"epochs": 2, "batch_size": 4}, checkpoint={"every_steps": 2})
    assert manyheads("pretrain", file, "-q").returncode == 0
    folder = toy_data / "runs" / "toy-pretrained"
    (folder / "encoder").rename(toy_data / "aside")
    mood = toy_data / "mood.csv"
    mood.write_text(mood.read_text().replace("good 2,", "bad 2,"))
    check_refused(manyheads("resume", folder), "its data has changed since it was started (texts)", "[data-changed]")


def test_a_tokenizer_without_a_mask_token_is_refused(
    recipe_file: RecipeFile, toy_encoder: Path, tmp_path: Path
) -> None:
    import shutil

    folder = tmp_path / "maskless"
    shutil.copytree(toy_encoder, folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["vocab"]["[NOPE]"] = content["model"]["vocab"].pop("[MASK]")
    (folder / "tokenizer.json").write_text(json.dumps(content))
    check_refused(manyheads("pretrain", recipe_file(encoder=str(folder))), "[no-mask-token]")


@pytest.mark.slow
def test_kept_files_are_safetensors(recipe_file: RecipeFile, toy_data: Path) -> None:
    assert manyheads("pretrain", recipe_file(), "-q").returncode == 0
    folder = toy_data / "runs" / "toy-pretrained"
    suffixes = {file.suffix for file in folder.rglob("*") if file.is_file()}
    assert suffixes <= {".safetensors", ".json", ".jsonl", ".yaml", ".txt", ".lock"}
    save_file(load_file(folder / "encoder" / "mlm-head.safetensors"), toy_data / "again.safetensors")

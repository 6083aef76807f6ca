"""`manyheads publish`: what is in the folder, who can open it, and what is not in it."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import ModelCard

from command import check_refused, manyheads
from conftest import made_once
from manyheads import Predictor, Run, UserError, load_recipe, publish, train
from manyheads.checks.bias import probe_bias
from manyheads.checks.bias_file import write_bias
from manyheads.publishing.facts import CardSettings
from manyheads.storage.files import write_folder

GIVEN = CardSettings(licence="mit", base_licence="apache-2.0", base_model="someone/encoder", languages=("en",))
HOME = "/home/somebody/models/secret-project"
TEXTS = ["the film was good", "a dull book 3"]


def change_model(run: Path, name: str, change: dict[str, Any]) -> None:
    """Another JSON file in best/, with checksums as a training would have written them."""
    original = run.with_name("original-best")
    (run / "best").rename(original)

    def fill(aside: Path) -> None:
        for file in original.iterdir():
            if file.name != "checksums.json":
                shutil.copyfile(file, aside / file.name)
        content = json.loads((aside / name).read_text()) if (aside / name).is_file() else {}
        (aside / name).write_text(json.dumps({**content, **change}))

    write_folder(run / "best", fill)
    shutil.rmtree(original)


def write_published(folder: Path, run: Path) -> None:
    """Of a copy of the run whose model was trained in folders that nobody should read of, and probed."""
    copied = folder / "runs" / "toy"
    shutil.copytree(run, copied)
    change_model(copied, "tokenizer_config.json", {"name_or_path": HOME, "model_max_length": 64})
    write_bias(copied, probe_bias(Run(copied).predictor))
    publish(copied, settings=GIVEN, exported=["exported-int8"])


@pytest.fixture(scope="session")
def published(toy_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `published` in a run's folder."""
    made = made_once(tmp_path_factory, "published-run", lambda folder: write_published(folder, toy_run))
    return made / "runs" / "toy" / "published"


@pytest.fixture
def own_run(toy_run: Path, tmp_path: Path) -> Path:
    """A copy for tests that spoil it."""
    return Path(shutil.copytree(toy_run, tmp_path / "own", ignore=shutil.ignore_patterns("checkpoints")))


def files_of(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file


# --- what it is ---------------------------------------------------------------------------------------------------


def test_it_holds_a_model_its_card_and_what_was_asked_for(published: Path) -> None:
    names = {str(file.relative_to(published)) for file in files_of(published)}
    model = {"config.json", "model.safetensors", "heads.safetensors", "manyheads.json", "tokenizer.json"}
    export = {"model.onnx", "onnx.json", "tokenizer.json", "README.md", "checksums.json"}
    expected = {*model, "tokenizer_config.json", "checksums.json", "README.md"}
    assert names == expected | {f"exported-int8/{name}" for name in export}


def test_it_predicts_what_the_run_does(published: Path) -> None:
    ours, theirs = Run(published.parent), Predictor.open(published)
    assert theirs.predict("mood", TEXTS) == ours.predict("mood", TEXTS)
    pairs = [("a man plays", "a man runs")]
    assert theirs.predict("near", pairs) == ours.predict("near", pairs)
    assert theirs.about == ours.about
    exported = Predictor.open(published / "exported-int8")
    assert set(exported.tasks) == {"mood", "near"}


def test_transformers_opens_the_encoder(published: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    encoder = AutoModel.from_pretrained(published).eval()
    inputs = AutoTokenizer.from_pretrained(published)(TEXTS[:1], return_tensors="pt")
    with torch.no_grad():
        states = encoder(**inputs).last_hidden_state[0]
    assert np.allclose(states.mean(dim=0).numpy(), Predictor.open(published).embed(TEXTS[:1])[0], atol=1e-5)


def test_a_card_that_its_owner_edits_spoils_nothing_but_a_changed_model_does(published: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(published, tmp_path / "copied"))
    with (copied / "README.md").open("a") as card:
        card.write("\nThanks to everybody.\n")
    Predictor.open(copied)
    with (copied / "manyheads.json").open("a") as file:
        file.write(" ")
    with pytest.raises(UserError) as fault:
        Predictor.open(copied)
    assert fault.value.code == "damaged-model"


def test_a_file_that_nobody_vouches_for_is_refused(published: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(published, tmp_path / "copied"))
    (copied / "more").mkdir()
    (copied / "more" / "extra.json").write_text("{}")
    with pytest.raises(UserError) as fault:
        Predictor.open(copied)
    assert fault.value.code == "damaged-model"


# --- what is not in it --------------------------------------------------------------------------------------------


def test_no_text_of_the_data_is_in_it(published: Path, toy_run: Path) -> None:
    texts: set[str] = set()
    for name, delimiter in (("mood.csv", ","), ("near.tsv", "\t")):
        with (toy_run.parents[1] / name).open(newline="") as file:
            for row in csv.DictReader(file, delimiter=delimiter):
                texts |= {value for column, value in row.items() if column.startswith("sentence")}
    assert len(texts) > 60
    for file in files_of(published):
        content = file.read_bytes()
        for text in texts:
            assert text.encode() not in content, f"{file.name}: {text}"


def test_no_folder_of_this_machine_is_in_it(published: Path, toy_encoder: Path) -> None:
    source = json.loads((published.parent / "best" / "tokenizer_config.json").read_text())
    assert source["name_or_path"] == HOME
    tokenizer = json.loads((published / "tokenizer_config.json").read_text())
    assert tokenizer == {"name_or_path": "secret-project", "model_max_length": 64}
    folders = (HOME, toy_encoder.parent, published.parents[2], Path(__file__).resolve().parents[2], Path.home())
    for file in files_of(published):
        if file.name != "tokenizer.json":
            for folder in folders:
                assert str(folder).encode() not in file.read_bytes(), f"{file.name}: {folder}"


# --- the card -----------------------------------------------------------------------------------------------------


def test_the_hub_reads_the_cards_head(published: Path) -> None:
    card = ModelCard.load(published / "README.md")
    head = card.data
    assert (head.license, head.language, head.base_model) == ("mit", ["en"], "someone/encoder")
    assert head.library_name == "manyheads"
    assert head.model_name == "toy"
    measured = json.loads((published.parent / "metrics.json").read_text())["dev"]["metrics"]
    told: dict[str, dict[str, float]] = {"mood": {}, "near": {}}
    for result in head.eval_results:
        told[result.task_name][result.metric_name] = result.metric_value
        assert result.dataset_split == "dev"
        assert result.dataset_type == "csv"
        assert result.dataset_name == f"{result.task_name}: held out of train"
    assert set(told) == set(measured)
    for name, metrics in measured.items():
        assert told[name] == pytest.approx(metrics, abs=1e-6)
    types = {result.metric_name: result.metric_type for result in head.eval_results}
    assert (types["pearson"], types["accuracy"], types["macro-f1"]) == ("pearsonr", "accuracy", "f1")


def section(card: str, title: str) -> str:
    """One section of a card."""
    match = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", card, re.M | re.S)
    assert match is not None, title
    return match.group(1)


def cells(text: str) -> list[list[str]]:
    """The rows of its tables."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]


def test_the_card_says_what_the_run_knows(published: Path) -> None:
    card = (published / "README.md").read_text()
    metrics = json.loads((published.parent / "metrics.json").read_text())
    title, _, *rows = cells(section(card, "Results"))
    assert title == ["task", "metric", "dev", "95 % interval", "majority"]
    assert len(rows) == sum(map(len, metrics["dev"]["metrics"].values()))
    [pearson] = [row for row in rows if row[1] == "pearson"]
    assert pearson[2] == f"**{metrics['dev']['metrics']['near']['pearson']:.3f}**"
    low, high = map(float, pearson[3].split(" to "))
    assert low <= metrics["dev"]["metrics"]["near"]["pearson"] + 5e-4
    assert high <= 1
    data = cells(section(card, "Data"))[2:]
    assert data[0][:4] == ["`mood`", "train", "mood.csv", "36"]
    assert [row[4] for row in data] == [f"`{metrics['data'][f'{row[0][1:-1]} {row[1]}']}`" for row in data]
    assert "always predicts" in section(card, "Limits")
    assert "names: gender" in section(card, "Names and group words")
    assert "exported-int8" in section(card, "Exported")
    assert "apache-2.0" in section(card, "Licence and languages")
    assert "no text of the training" in card
    assert "Dev figures therefore flatter it" in section(card, "Results"), "it was chosen on them"


def test_the_settings_are_those_of_the_recipe(published: Path) -> None:
    text = section((published / "README.md").read_text(), "Settings")
    [block] = re.findall(r"```yaml\n(.*?)```", text, re.S)
    settings = yaml.safe_load(block)
    assert settings["training"]["learning_rate"] == 1e-3
    assert settings["encoder"]["name"] == "encoder"
    assert "data" not in settings
    assert "output" not in settings


def test_the_cards_code_runs(
    published: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [code] = re.findall(r"```python\n(.*?)```", (published / "README.md").read_text(), re.S)
    assert len([line for line in code.splitlines() if line.strip()]) <= 5
    monkeypatch.chdir(published)
    exec(code, {})
    assert capsys.readouterr().out.count("'prediction':") == 3


def test_what_nobody_said_the_card_says_so(own_run: Path, tmp_path: Path) -> None:
    done = publish(own_run, tmp_path / "out")
    assert [note.partition(" (")[0] for note in done.notes] == [
        "no licence was given",
        "the encoder's licence was not given",
    ]
    card = (tmp_path / "out" / "README.md").read_text()
    head = ModelCard(card).data
    assert head.license is None
    assert head.language is None
    assert head.base_model is None  # a folder of this machine has no name on the hub
    assert "**no licence was given**" in card
    assert "Languages: **not given**" in card
    assert "Not probed" in section(card, "Names and group words")
    assert "not published here" in section(card, "Exported")


def test_a_licence_that_the_hub_does_not_know_is_warned_of(own_run: Path, tmp_path: Path) -> None:
    done = publish(own_run, tmp_path / "out", CardSettings(licence="apche-2.0"))
    assert "Did you mean 'apache-2.0'" in done.notes[0]
    head = ModelCard.load(tmp_path / "out" / "README.md").data
    assert (head.license, head.license_name) == ("other", "apche-2.0")


def test_a_probe_of_another_model_is_not_shown(own_run: Path, tmp_path: Path) -> None:
    probe = probe_bias(Run(own_run).predictor)
    probe.model["step"] = 9_999
    write_bias(own_run, probe)
    publish(own_run, tmp_path / "out")
    assert "Not probed" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.slow
def test_heads_of_the_model_that_a_run_extends_are_told_of(toy_run: Path, tmp_path: Path) -> None:
    settings = {
        "name": "more",
        "extends": str(toy_run),
        "data": {"root": str(toy_run.parents[1])},
        "tasks": {"tone": {"train": "mood.csv"}},
        "training": {"epochs": 1},
        "output": str(tmp_path),
        "report": False,
    }
    folder = publish(train(load_recipe(settings), quiet=True).folder).folder
    card = (folder / "README.md").read_text()
    assert [row[0] for row in cells(section(card, "Tasks"))[2:]] == ["`mood`", "`near`", "`tone`"]
    assert "`mood`, `near`: of the model that this run extends" in card
    assert {row[0] for row in cells(section(card, "Results"))[2:]} == {"`tone`"}
    assert str(toy_run.parent) not in card
    assert set(Predictor.open(folder).tasks) == {"mood", "near", "tone"}


# --- mistakes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda run: (run / "metrics.json").unlink(), "unfinished-run"),
        (lambda run: shutil.rmtree(run / "best"), "unfinished-run"),
        (lambda run: (run / "log.jsonl").unlink(), "not-a-run"),
        (lambda run: (run / "best" / "checksums.json").write_text("{}"), "damaged-model"),
        (lambda run: (run / "best" / "model.safetensors").write_bytes(b"\x00" * 99), "damaged-model"),
        (lambda run: (run / "bias.json").write_text("[]"), "damaged-file"),
    ],
)
def test_what_cannot_be_published_is_one_message(own_run: Path, tmp_path: Path, spoil: Any, code: str) -> None:
    spoil(own_run)
    with pytest.raises(UserError) as fault:
        publish(own_run, tmp_path / "out")
    assert fault.value.code == code
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "exported", "code"),
    [
        (CardSettings(languages=("English",)), [], "bad-option"),
        (CardSettings(hub_name="a/b/c"), [], "bad-option"),
        (CardSettings(), ["exported-int4"], "no-such-export"),
        (CardSettings(), ["../own/exported-int8"], "no-such-export"),
        (CardSettings(), ["best"], "no-such-export"),
    ],
)
def test_bad_options_write_nothing(
    own_run: Path, tmp_path: Path, settings: CardSettings, exported: list[str], code: str
) -> None:
    with pytest.raises(UserError) as fault:
        publish(own_run, tmp_path / "out", settings, exported)
    assert fault.value.code == code
    assert not (tmp_path / "out").exists()


def test_an_export_of_another_model_does_not_go_along(own_run: Path, tmp_path: Path) -> None:
    change_model(own_run, "manyheads.json", {"about": {"run": "toy", "step": 77}})
    with pytest.raises(UserError) as fault:
        publish(own_run, tmp_path / "out", exported=["exported-int8"])
    assert fault.value.code == "other-model"


def test_an_export_that_names_a_folder_of_this_machine_is_refused(own_run: Path, tmp_path: Path) -> None:
    """As graphs did that were exported by earlier versions."""
    export = own_run / "exported-int8"

    def fill(aside: Path) -> None:
        for file in export.iterdir():
            if file.name != "checksums.json":
                shutil.copyfile(file, aside / file.name)
        with (aside / "model.onnx").open("ab") as graph:
            graph.write(str(own_run.parent / "graph.py").encode())

    write_folder(own_run / "exported-old", fill)
    with pytest.raises(UserError) as fault:
        publish(own_run, tmp_path / "out", exported=["exported-old"])
    assert fault.value.code == "local-path"
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_only_what_was_published_is_overwritten(own_run: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    first = manyheads("publish", own_run, "--to", target, "--license", "mit")
    assert first.returncode == 0, first.stderr
    assert "note: the encoder's licence" in first.stderr
    assert str(target) in first.stdout
    check_refused(manyheads("publish", own_run, "--to", target), "[folder-exists]", "--overwrite")
    again = manyheads("publish", own_run, "--to", target, "--overwrite", "--json")
    assert json.loads(again.stdout)["folder"] == str(target)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    refused = manyheads("publish", own_run, "--to", tmp_path / "mine", "--overwrite")
    check_refused(refused, "[not-published]")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    check_refused(manyheads("publish", own_run, "--public"), "[conflicting-options]")

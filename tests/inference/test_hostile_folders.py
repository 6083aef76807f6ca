"""A model folder may come from anywhere. Whatever is wrong with it is one message with a file, a reason and a code:
never a traceback, never code that runs, never a byte written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from command import check_refused, manyheads, start
from manyheads import Predictor, UserError
from manyheads.config.part import PartConfig
from manyheads.data.dataset import Dataset
from manyheads.inference.prediction_files import write_predictions
from manyheads.inference.texts import dataset_of_texts
from manyheads.model.task_tokens import TaskTokens
from spoiled_folders import (
    Spoil,
    checksums,
    cut,
    cut_and_sealed,
    in_config,
    in_json,
    in_task,
    in_tensors,
    labels,
    linked,
    nested,
    pipe,
    seal,
    with_text,
    without,
)

HOSTILE: dict[str, tuple[Spoil, str, str]] = {
    # names and paths
    "checksums lead up": (checksums(**{"../../outside.txt": "0" * 64}), "checksums.json", "unsafe-path"),
    "checksums are absolute": (checksums(**{"/etc/passwd": "0" * 64}), "'/etc/passwd' is not the name", "unsafe-path"),
    "checksums of Windows": (checksums(**{"..\\x": "0" * 64}), "is not the name of a file", "unsafe-path"),
    "checksums name a missing file": (checksums(**{"gone.bin": "00"}), "gone.bin: missing", "damaged-model"),
    "checksums are a list": (with_text("x", "x"), "", ""),  # replaced below
    "a link out": (linked("vocab.txt", "/etc/passwd"), "a link to", "unsafe-path"),
    "a relative link out": (linked("heads.safetensors", "../../outside.txt"), "a link to", "unsafe-path"),
    "a link to itself": (linked("tokenizer.json", "tokenizer.json"), "tokenizer.json: missing", "damaged-model"),
    "a pipe": (pipe, "tokenizer.json: not a plain file", "unsafe-path"),
    "a sharded index leads up": (
        with_text("model.safetensors.index.json", json.dumps({"weight_map": {"a": "../../outside.safetensors"}})),
        "model.safetensors.index.json",
        "unsafe-path",
    ),
    "an adapter": (with_text("adapter_config.json", "{}"), "adapter_config.json: it names another", "invalid-model"),
    "a task named like a path": (in_task(name="../../x"), "letters, digits", "invalid-model"),
    "a task with an escape": (in_task(name="\x1b[2Jmood"), "letters, digits", "invalid-model"),
    "a task without a name": (in_task(name=""), "letters, digits", "invalid-model"),
    "a prediction file that leads up": (
        in_task(predictions={"file": "../{task}-{split}.csv"}),
        "expected a file's name",
        "invalid-model",
    ),
    # manyheads.json
    "not JSON": (with_text("manyheads.json", "{"), "manyheads.json: not valid JSON", "invalid-model"),
    "JSON with NaN": (
        with_text("manyheads.json", '{"max_length": NaN}'),
        "manyheads.json: not valid JSON: NaN",
        "invalid-model",
    ),
    "JSON with infinity": (with_text("manyheads.json", '{"a": 1e999}'), "1e999 is too large", "invalid-model"),
    "JSON nested deep": (with_text("manyheads.json", nested(100_000)), "manyheads.json: not valid", "invalid-model"),
    "JSON of bytes": (
        lambda folder: ((folder / "manyheads.json").write_bytes(b"\xff\xfe\x00"), seal(folder))[1],
        "manyheads.json: not valid JSON",
        "invalid-model",
    ),
    "a huge number": (with_text("manyheads.json", f'{{"a": {"9" * 5000}}}'), "not valid JSON", "invalid-model"),
    "a list": (with_text("manyheads.json", "[]"), "manyheads.json", "invalid-model"),
    "no tasks": (in_json("manyheads.json", lambda c: c.update(tasks=[])), "tasks: List should", "invalid-model"),
    "tasks of a wrong type": (
        in_json("manyheads.json", lambda c: c.update(tasks="x")),
        "tasks: Input",
        "invalid-model",
    ),
    "no max_length": (in_json("manyheads.json", lambda c: {"tasks": c["tasks"]}), "max_length: Field", "invalid-model"),
    "a max_length of words": (
        in_json("manyheads.json", lambda c: c.update(max_length="9")),
        "max_length",
        "invalid-model",
    ),
    "a max_length of 0": (in_json("manyheads.json", lambda c: c.update(max_length=0)), "max_length", "invalid-model"),
    "a max_length without room": (
        in_json("manyheads.json", lambda c: c.update(max_length=3)),
        "max_length 3 leaves no room",
        "invalid-model",
    ),
    "a max_length beyond reason": (
        in_json("manyheads.json", lambda c: c.update(max_length=10**30)),
        "max_length",
        "invalid-model",
    ),
    "two tasks of one name": (
        in_json("manyheads.json", lambda c: c["tasks"].append(c["tasks"][0])),
        "two tasks are called 'mood'",
        "invalid-model",
    ),
    "a task without keys": (in_json("manyheads.json", lambda c: c.update(tasks=[{}])), "task 1: ", "invalid-model"),
    "a task of another's head": (in_task(head_of="nobody"), "head_of: task 'nobody' has no head", "invalid-model"),
    "a task of its own head": (in_task(head_of="mood"), "head_of: task 'mood' has no head", "invalid-model"),
    "a unit of 0": (in_task(unit=0), "unit: expected a positive number", "invalid-model"),
    "a unit of words": (in_task(unit="wide"), "unit", "invalid-model"),
    "counts of another number": (in_task(counts=[1]), "counts: 1 numbers for 3 classes", "invalid-model"),
    "a temperature of 0": (in_task(temperature=0), "temperature: expected a number from 0.05", "invalid-model"),
    "a negative temperature": (in_task(temperature=-1.0), "temperature: expected a number", "invalid-model"),
    "a temperature that levels all": (in_task(temperature=1e300), "temperature: expected a number", "invalid-model"),
    "a temperature of words": (in_task(temperature="warm"), "temperature", "invalid-model"),
    "a temperature that is no number": (in_task(temperature=float("nan")), "not valid JSON: NaN", "invalid-model"),
    "thresholds of another number": (in_task(thresholds=[0.5]), "thresholds: 1 numbers for 3", "invalid-model"),
    "a threshold of 0": (in_task(thresholds=[0.5, 0, 0.5]), "numbers between 0 and 1", "invalid-model"),
    "a negative threshold": (in_task(thresholds=[0.5, -0.1, 0.5]), "numbers between 0 and 1", "invalid-model"),
    "a threshold of 1": (in_task(thresholds=[0.5, 1, 0.5]), "numbers between 0 and 1", "invalid-model"),
    "columns of a wrong type": (in_task(columns={"text": 3, "label": "x", "id": None}), "task 1", "invalid-model"),
    "three text columns": (
        in_task(columns={"text": ["a", "b", "c"], "label": "x", "id": None}),
        "columns.text: expected one or two",
        "invalid-model",
    ),
    "two text columns for one": (
        in_task(columns={"text": ["a", "b"], "label": "x", "id": None}),
        "encoding: 'single' takes one text column",
        "invalid-model",
    ),
    "an unknown kind": (labels(kind="magic"), "kinds/magic", "unknown-part"),
    "a regression with classes": (labels(kind="regression"), "a regression with 3 classes", "invalid-model"),
    "classes that are missing": (labels(names=[]), "with 0 classes", "invalid-model"),
    "more classes than outputs": (
        labels(names=["1", "2", "3", "4"]),
        "counts: 3 numbers for 4 classes",
        "invalid-model",
    ),
    "a class index out of range": (labels(values={"1": 7}), "class indices below 3", "invalid-model"),
    "a class name of numbers": (labels(names=[1, 2, 3]), "task 1", "invalid-model"),
    "a class name with an escape": (labels(names=["1", "\x1b[2J", "3"]), "has control characters", "invalid-model"),
    # parts
    "a part that is not registered": (in_task(loss="huber"), "losses/huber is not a part", "unknown-part"),
    "a part of a wrong type": (in_task(loss=7), "task 1", "invalid-model"),
    "an option that does not exist": (
        in_task(head={"name": "linear", "wings": 2}),
        "head: 'linear' has no option 'wings'",
        "invalid-model",
    ),
    "an option of a wrong type": (in_task(head={"name": "mlp", "units": "many"}), "option 'units'", "invalid-model"),
    "a head beyond memory": (in_task(head={"name": "mlp", "units": 10**12}), "at most 65536", "invalid-model"),
    "a head wider than its weights": (
        in_task(head={"name": "mlp", "units": 60_000, "layers": 9}),
        "its heads do not fit",
        "invalid-model",
    ),
    "a loss of another kind": (in_task(loss="mse"), "loss: 'mse' needs numbers", "invalid-model"),
    "a layer that the encoder has not": (
        in_task(pooling={"name": "head-pooler", "layer": 40}),
        "task 'mood': pooling",
        "invalid-model",
    ),
    # the encoder's config
    "config.json is a list": (with_text("config.json", "[]"), "config.json: expected a JSON object", "invalid-model"),
    "config.json nested deep": (
        with_text("config.json", '{"a": ' + nested(900) + "}"),
        "config.json",
        "invalid-model",
    ),
    "an unknown architecture": (in_config(model_type="golem"), "config.json", "invalid-model"),
    "no architecture": (in_json("config.json", lambda c: {"hidden_size": 32}), "config.json", "invalid-model"),
    "an encoder beyond memory": (in_config(hidden_size=3_000_000), "config.json", "invalid-model"),
    "more layers than weights": (in_config(num_hidden_layers=10**9), "but its weights have", "invalid-model"),
    "a layer too many": (in_config(num_hidden_layers=3), "asks for tensor", "invalid-model"),
    "a layer too few": (in_config(num_hidden_layers=1), "config.json: describes", "invalid-model"),
    "fewer layers than none": (in_config(num_hidden_layers=-1), "'num_hidden_layers' is -1", "invalid-model"),
    "a width of words": (in_config(hidden_size="wide"), "config.json", "invalid-model"),
    "no attention heads": (in_config(num_attention_heads=0), "0 attention heads do not", "invalid-model"),
    "attention heads that do not divide": (in_config(num_attention_heads=5), "5 attention heads", "invalid-model"),
    "another architecture's config": (
        in_config(model_type="roberta", vocab_size=2**30, hidden_size=2**12, num_attention_heads=4),
        "config.json: describes",
        "invalid-model",
    ),
    "quantized": (in_config(quantization_config={"quant_method": "gptq"}), "'quantization_config'", "invalid-model"),
    "a kernel from the hub": (
        in_config(model_type="roberta", attn_implementation="somebody/kernel"),
        "'attn_implementation' asks for code",
        "invalid-model",
    ),
    # the tokenizer
    "tokenizer.json is something else": (with_text("tokenizer.json", "{}"), "tokenizer.json", "invalid-model"),
    "tokenizer.json is no JSON": (with_text("tokenizer.json", "\x00\x01"), "tokenizer.json", "invalid-model"),
    "no tokenizer.json": (without("tokenizer.json"), "tokenizer.json: missing", "damaged-model"),
    "a tokenizer without words": (
        in_json("tokenizer.json", lambda c: c.update(model={"type": "WordLevel", "vocab": {}, "unk_token": "[UNK]"})),
        "tokenizer.json",
        "invalid-model",
    ),
    "special tokens that the encoder has not": (
        in_json(
            "tokenizer.json",
            lambda c: [one.update(ids=[9_999_999]) for one in c["post_processor"]["special_tokens"].values()] and None,
        ),
        "tokenizer.json",
        "invalid-model",
    ),
    # weights
    "truncated heads": (cut("heads.safetensors"), "heads.safetensors: damaged", "damaged-model"),
    "truncated weights": (cut("model.safetensors", 100), "model.safetensors: damaged", "damaged-model"),
    "truncated heads, sealed": (cut_and_sealed("heads.safetensors"), "heads.safetensors: ", "damaged-model"),
    "truncated weights, sealed": (cut_and_sealed("model.safetensors"), "model.safetensors: ", "damaged-model"),
    "truncated description": (cut("manyheads.json"), "manyheads.json: damaged", "damaged-model"),
    "empty heads": (with_text("heads.safetensors", ""), "heads.safetensors: ", "damaged-model"),
    "no heads": (without("heads.safetensors"), "heads.safetensors: missing", "damaged-model"),
    "no weights": (without("model.safetensors"), "", "invalid-model"),
    "heads of another shape": (
        in_tensors("heads.safetensors", lambda t: torch.zeros(7, 7)),
        "its heads do not fit",
        "invalid-model",
    ),
    "heads of integers": (
        in_tensors("heads.safetensors", lambda t: t.long()),
        "expected floats",
        "invalid-model",
    ),
    "heads that are not finite": (
        in_tensors("heads.safetensors", lambda t: t * float("nan")),
        "values that are not finite",
        "invalid-model",
    ),
    "weights of another shape": (
        in_tensors("model.safetensors", lambda t: torch.zeros(7)),
        "asks for tensor",
        "invalid-model",
    ),
    "weights of booleans": (in_tensors("model.safetensors", lambda t: t > 0), "expected floats", "invalid-model"),
    "weights that are not finite": (
        in_tensors("model.safetensors", lambda t: t * float("inf")),
        "values that are not finite",
        "invalid-model",
    ),
}
HOSTILE["checksums are a list"] = (
    lambda folder: (folder / "checksums.json").write_text("[1]") and None,
    "expected a map from file names",
    "invalid-model",
)


def everything_below(folder: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        found[str(path)] = (state.st_size, state.st_mtime_ns)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_folders_get_one_message(case: str, model_folder: Path, tmp_path: Path) -> None:
    spoil, words, code = HOSTILE[case]
    (tmp_path / "outside.txt").write_text("outside")
    spoil(model_folder)
    before = everything_below(tmp_path)
    with pytest.raises(UserError) as fault:
        Predictor.open(model_folder)
    assert words in str(fault.value)
    assert str(model_folder) in str(fault.value)
    assert fault.value.code == code, fault.value
    assert str(fault.value).isprintable() or "\n" in str(fault.value)
    assert "\x1b" not in str(fault.value)
    assert everything_below(tmp_path) == before, "nothing is written"


# the command on one folder after the other, in one process
PREDICT_EACH = """
import contextlib, io
results = []
for folder in sys.argv[1:]:
    sys.argv = ["manyheads", "predict", folder, "-t", "mood", "--text", "a film"]
    stdout, stderr, exit_code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            manyheads.cli.main()
        except SystemExit as exit:
            exit_code = exit.code or 0
    results.append((exit_code, stdout.getvalue(), stderr.getvalue()))
print(json.dumps(results))
"""
SHARES = 4  # tests that the cases are dealt to, so that processes can share the work


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_hostile_folders_from_the_command_line(share: int, saved_model: Path, tmp_path: Path) -> None:
    folders: dict[str, Path] = {}
    for number, case in enumerate(list(HOSTILE)[share::SHARES]):
        room = tmp_path / str(number)
        folders[case] = Path(shutil.copytree(saved_model, room / "copied" / "best"))
        (room / "outside.txt").write_text("outside")
        HOSTILE[case][0](folders[case])
    before = everything_below(tmp_path)
    ended = start(*folders.values(), program=PREDICT_EACH).wait()
    assert (ended.returncode, ended.stderr) == (0, "")
    for (case, folder), (code, stdout, stderr) in zip(folders.items(), json.loads(ended.stdout), strict=True):
        _, words, fault_code = HOSTILE[case]
        assert (code, stdout) == (2, ""), (case, stderr)
        assert stderr.startswith("error: "), case
        assert "Traceback" not in stderr, case
        assert words in stderr, case
        assert str(folder) in stderr, case
        assert stderr.endswith(f"[{fault_code}]\n"), case
    assert everything_below(tmp_path) == before, "nothing is written"


CODE = """
from pathlib import Path
Path({mark!r}).write_text("code of the folder was run")
from transformers import BertConfig, BertModel
class Config(BertConfig):
    model_type = "golem"
class Model(BertModel):
    config_class = Config
"""


@pytest.mark.parametrize("model_type", ["bert", "roberta", "golem"])
def test_code_in_a_folder_is_never_run(model_type: str, model_folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for name in ("modeling.py", "my_parts.py", "__init__.py", "sitecustomize.py"):
        (model_folder / name).write_text(CODE.format(mark=str(mark)))
    auto_map = {"AutoConfig": "modeling.Config", "AutoModel": "modeling.Model"}
    in_config(model_type=model_type, auto_map=auto_map, trust_remote_code=True)(model_folder)
    with pytest.raises(UserError, match="'auto_map' asks for code") as fault:
        Predictor.open(model_folder)
    assert fault.value.code == "invalid-model"
    result = manyheads("predict", model_folder, "-t", "mood", "--text", "x", stdin="y\ny\n")
    check_refused(result, "auto_map")
    in_json(
        "config.json", lambda content: {k: v for k, v in content.items() if k not in ("auto_map", "trust_remote_code")}
    )(model_folder)
    in_json("manyheads.json", lambda content: content.update(imports={"losses/huber": "my_parts.py"}))(model_folder)
    in_task(loss="huber")(model_folder)
    with pytest.raises(UserError, match=r"(?s)losses/huber was .* my_parts\.py .*--imports my_parts\.py") as fault:
        Predictor.open(model_folder)
    assert fault.value.code == "unknown-part"
    assert not mark.exists()


def test_prediction_files_stay_in_their_folder(saved_model: Path, tmp_path: Path) -> None:
    """Whatever a task is called: a Task may also be built by a program, or by a damaged tasks.json."""
    from dataclasses import replace

    predictor = Predictor.open(saved_model)
    task = predictor.task("length")
    examples: Dataset = dataset_of_texts(["a film"], 1, "length")
    predictions = predictor.backend.run([task], examples, lambda count: None)["length"]
    tokenizer = predictor.backend.model.tokenizer  # type: ignore[attr-defined]
    for name in ("../../x", "/tmp/x", "a/b", "..\\x"):
        tokens = TaskTokens(replace(task, name=name), examples, tokenizer, cached=False)
        with pytest.raises(UserError, match="is not the name of a prediction file") as fault:
            write_predictions(tmp_path / "predictions", tokens, "dev", predictions)
        assert fault.value.code == "unsafe-path"
    assert not (tmp_path / "predictions").exists()
    tokens = TaskTokens(task, examples, tokenizer, cached=False)
    assert write_predictions(tmp_path / "predictions", tokens, "dev", predictions).name == "length-dev.csv"


def test_parts_of_the_folder_that_prediction_does_not_need(model_folder: Path) -> None:
    """A metric that is not registered, and what a later version may add, do not stand in the way."""
    in_task(metrics=["a-metric-of-mine"])(model_folder)
    in_json("manyheads.json", lambda content: content.update(later={"a": 1}))(model_folder)
    found = Predictor.open(model_folder).predict("mood", ["a film"])
    assert found[0]["prediction"] in ("1", "2", "3")
    assert PartConfig(name="a-metric-of-mine") in Predictor.open(model_folder).task("mood").metrics


@pytest.mark.slow
def test_folders_that_are_none(tmp_path: Path, model_folder: Path) -> None:
    cases = {"absent": "no-such-model", "empty": "damaged-model", "file": "no-such-model"}
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for name, code in cases.items():
        with pytest.raises(UserError) as fault:
            Predictor.open(tmp_path / name)
        assert fault.value.code == code
        result = manyheads("predict", tmp_path / name, "--text", "x")
        check_refused(result, str(tmp_path / name))
    (model_folder / "checksums.json").unlink()
    check_refused(manyheads("predict", model_folder, "--text", "x"), "checksums.json", "[damaged-model]")

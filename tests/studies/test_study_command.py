"""`manyheads study`: runs as processes, each once; killed and gone on with; tables; results sent to another machine."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from command import FORKED_RUNS, Started, check_refused, manyheads, start
from conftest import made_once, write_toy_data
from manyheads.runs.lock import find_holder
from manyheads.studies.runner import start_run, train_in_process
from manyheads.studies.study import OpenStudy, open_study

pytestmark = pytest.mark.slow

STUDY: dict[str, Any] = {
    "base": "base.yaml",
    "variants": {"plain": {}, "slow": {"training.learning_rate": 1e-4}},
    "seeds": 2,
}


@pytest.fixture
def study(toy_data: Path, toy_encoder: Path) -> Path:
    """A study of four runs, none of which is trained."""
    return write_study(toy_data, toy_encoder)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, toy_encoder: Path) -> Path:
    """Data, study, its runs in `studies`, and what was printed, in a folder that nobody changes."""

    def make(folder: Path) -> None:
        study = write_study(write_toy_data(folder), toy_encoder)
        result = run(study, folder / "studies", before="")  # processes from nothing, as a user has them
        assert result.returncode == 0, result.stderr
        (folder / "printed.json").write_text(json.dumps({"stdout": result.stdout, "stderr": result.stderr}))

    return made_once(tmp_path_factory, "trained-study", make)


@pytest.fixture
def finished_runs(trained: Path, toy_data: Path) -> Path:
    """The study in the test's own folder, with its four runs finished in `studies`."""
    shutil.copytree(trained, toy_data, dirs_exist_ok=True)
    return toy_data / "mine.yaml"


def write_study(folder: Path, encoder: Path) -> Path:
    base = {
        "defaults": "0.1",
        "encoder": str(encoder),
        "data": {"dev_share": 0.4},  # of three rows a correlation is mostly undefined
        "tasks": {"mood": {"train": "mood.csv"}, "near": {"train": "near.tsv", "range": [0, 5]}},
        "training": {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3},
        "checkpoint": {"every_steps": 3},
    }
    (folder / "base.yaml").write_text(yaml.safe_dump(base))
    return write(folder, STUDY)


def write(folder: Path, content: dict[str, Any]) -> Path:
    (folder / "mine.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return folder / "mine.yaml"


def csv_table(study: Path, output: Path) -> list[dict[str, str]]:
    """The table without what it cost, which differs from time to time."""
    result = manyheads("study", "table", study, "--output", output, "--format", "csv")
    assert result.returncode == 0, result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    return [{key: value for key, value in row.items() if key not in ("seconds", "gigabytes")} for row in rows]


def run(study: Path, output: Path, *more: str, before: str = FORKED_RUNS) -> subprocess.CompletedProcess[str]:
    words = ("study", "run", study, "--output", output, "--jobs", "2", "--threads", "1", *more)
    return manyheads(*words, before=before)


def train_here(study: Path, output: Path) -> OpenStudy:
    """Train a study in this process, which takes no time to start: for tests of what is made of its results."""
    opened = open_study(str(study), None, output, {})
    for identity, planned in opened.runs:
        train_in_process(opened.folder, identity, planned)
    return opened


def test_a_study_runs_once_and_its_table_says_what_is_real(finished_runs: Path, toy_data: Path) -> None:
    study, output = finished_runs, toy_data / "studies"
    first = json.loads((toy_data / "printed.json").read_text())
    assert "4 runs, 0 finished before; 2 at a time" in first["stderr"]
    assert "study 4/4 runs" in first["stderr"]
    for words in ("variant", "plain", "slow", "mood accuracy", "near pearson", "overall", "Differences from 'plain'",
                  "paired by seed", "Smallest difference that would be found"):  # fmt: skip
        assert words in first["stdout"], first["stdout"]
    results = {file: file.stat().st_mtime_ns for file in (output / "results").iterdir()}
    again = run(study, output)
    assert "4 runs, 4 finished before" in again.stderr
    assert {file: file.stat().st_mtime_ns for file in (output / "results").iterdir()} == results
    assert not list(output.rglob("model.safetensors")), "weights are not kept"
    more = run(write(toy_data, {**STUDY, "seeds": 3}), output)
    assert "6 runs, 4 finished before" in more.stderr, "another seed is all that is trained"
    status = manyheads("study", "status", study, "--output", output)
    assert "6 of 6 runs finished" in status.stdout
    for line in json.loads(manyheads("study", "status", study, "--output", output, "--json").stdout):
        assert Path(line["folder"]) == output / "runs" / line["identity"]
        recipe = yaml.safe_load((Path(line["folder"]) / "recipe.yaml").read_text())
        assert recipe["seed"] == line["seed"]
        assert recipe["training"]["learning_rate"] == (1e-4 if line["row"] == "slow" else 1e-3)
        assert line["identity"] in status.stdout
    markdown = manyheads("study", "table", study, "--output", output, "--format", "markdown").stdout
    assert "| variant | seeds | mood accuracy |" in markdown
    rows = csv_table(study, output)
    assert [(row["variant"], row["column"]) for row in rows][:3] == [
        ("plain", "mood"), ("plain", "near"), ("plain", "overall")
    ]  # fmt: skip
    assert {row["verdict"] for row in rows if row["variant"] == "slow"} <= {"better", "worse", "not distinguishable"}
    record = json.loads(gzip.decompress(next(one for one in results if not one.name.startswith("dev-")).read_bytes()))
    mine = [row for row in rows if row["column"] == "overall" and row["variant"] == "plain"]
    assert float(mine[0]["mean"]) > 0
    assert set(record["metrics"]) == {"mood", "near"}
    check_history(output)
    check_columns_of_history(toy_data, output)


def check_history(output: Path) -> None:
    """Every result has its run's evaluations; those of the first seed where dev examples lie."""
    from manyheads.runs.history import read_history
    from manyheads.runs.run import Run

    for folder in (output / "runs").iterdir():
        record = json.loads(gzip.decompress((output / "results" / f"{folder.name}.json.gz").read_bytes()))
        assert record["history"] == read_history(Run(folder).log())
        assert [(entry["step"], entry["epoch"]) for entry in record["history"]] == [(3, 1), (6, 2)]
        assert ("pca" in record) == (record["seed"] == 0)
        if record["seed"] == 0:
            assert {task: len(content["points"]) for task, content in record["pca"].items()} == {"mood": 16, "near": 12}
            assert set(record["pca"]["mood"]["labels"]) == {0, 1, 2, 3}
            first, second = record["pca"]["near"]["explained"]
            assert 1 >= first >= second > 0


def check_columns_of_history(toy_data: Path, output: Path) -> None:
    """The same runs, shown otherwise."""
    columns = ["mood", "mood.best", "mood.best_epoch", "overall.best_epoch", "mood.class-mse"]
    study = write(toy_data, {**STUDY, "metrics": columns, "published": {"plain": {"mood.best_epoch": 2}}})
    shown = manyheads("study", "table", study, "--output", output, "--format", "markdown").stdout
    for words in ("mood accuracy (own best) | mood best epoch | paper's mood.best_epoch |", "mood class-mse",
                  "No differences are given for mood accuracy (own best), mood best epoch, overall best"):  # fmt: skip
        assert words in shown, shown
    rows = {(row["variant"], row["column"]): row for row in csv_table(study, output)}
    plain = []
    for file in (output / "results").glob("[!d]*.json.gz"):
        record = json.loads(gzip.decompress(file.read_bytes()))
        folder = output / "runs" / file.name.removesuffix(".json.gz")
        if record["seed"] < 2 and "0.0001" not in (folder / "recipe.yaml").read_text():
            plain.append([entry["metrics"]["mood"]["accuracy"] for entry in record["history"]])
    assert len(plain) == 2
    assert float(rows["plain", "mood.best"]["mean"]) == pytest.approx(sum(map(max, plain)) / 2)
    assert float(rows["plain", "mood.best_epoch"]["mean"]) == sum(1 + seed.index(max(seed)) for seed in plain) / 2
    assert rows["slow", "mood.best"]["difference"] == ""
    assert rows["slow", "mood.class-mse"]["difference"] != ""
    refused = write(toy_data, {**STUDY, "metrics": ["mood.train"]})
    check_refused(run(refused, output), "'mood.train' needs metrics on train", "[train-not-measured]")


def test_a_failed_run_shows_its_reason_and_does_not_stop_the_others(study: Path, toy_data: Path) -> None:
    broken = {"training.learning_rate": 1e9, "training.max_grad_norm": None, "encoder.dropout": 0.0}
    content = {**STUDY, "variants": {"plain": {}, "broken": broken}, "seeds": 1}
    output = toy_data / "studies"
    result = run(write(toy_data, content), output)
    assert result.returncode == 1
    assert "failed: broken, seed 0: Step" in result.stderr
    assert "Traceback" not in result.stderr
    assert "plain" in result.stdout
    status = manyheads("study", "status", study, "--output", output)
    assert "failed at" in status.stdout
    assert "1 of 2 runs finished" in status.stdout
    rows = json.loads(manyheads("study", "status", study, "--output", output, "--json").stdout)
    assert [(row["row"], row["state"][:6], row["reason"][:4]) for row in rows] == [
        ("plain", "finish", ""), ("broken", "failed", "Step")
    ]  # fmt: skip


def processes_of(folder: Path) -> list[int]:
    """The runs under way that were started from nothing: processes whose command names the folder."""
    found = []
    for one in Path("/proc").iterdir():
        try:
            words = (one / "cmdline").read_bytes().split(b"\0") if one.name.isdigit() else []
        except OSError:
            continue
        if any(str(folder).encode() in word for word in words) and (b"train" in words or b"resume" in words):
            found.append(int(one.name))
    return found


def runs_in_training(output: Path) -> dict[Path, int]:
    """Run folder → the process that holds its lock."""
    holders: dict[Path, int] = {}
    for folder in (output / "runs").glob("*"):
        holder = find_holder(folder)
        if holder is not None:
            holders[folder] = holder.process
    return holders


def start_study(study: Path, output: Path, jobs: int, before: str = FORKED_RUNS) -> Started:
    return start("study", "run", study, "--output", output, "--jobs", str(jobs), "--threads", "1", before=before)


def wait_until(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until, "the study does not get on"
        time.sleep(0.01)


def test_killed_with_one_of_its_runs_it_goes_on_to_the_same_table(study: Path, toy_data: Path) -> None:
    study = write(toy_data, {**STUDY, "set": {"training.epochs": 8}})
    train_here(study, toy_data / "left")
    output = toy_data / "killed"
    started = start_study(study, output, jobs=2)
    wait_until(lambda: list((output / "runs").glob("*/checkpoints/step-*")))
    runs = runs_in_training(output)
    assert runs
    started.kill(signal.SIGKILL)
    killed, process = next(iter(runs.items()))
    os.kill(process, signal.SIGKILL)
    started.wait()
    assert not (killed / "metrics.json").exists(), "it was killed, not finished"
    again = run(study, output)  # waits for the run that is still at work, and goes on with the one that is not
    assert again.returncode == 0, again.stderr
    assert csv_table(study, output) == csv_table(study, toy_data / "left")


def test_asked_to_stop_it_saves_its_runs(study: Path, toy_data: Path) -> None:
    study = write(toy_data, {**STUDY, "set": {"training.epochs": 200}, "seeds": 1})
    output = toy_data / "stopped"
    started = start_study(study, output, jobs=2, before="")  # processes from nothing, as a user has them
    wait_until(lambda: len(list((output / "runs").glob("*/log.jsonl"))) == 2)
    started.kill(signal.SIGTERM)
    stopped = started.wait()
    assert stopped.returncode == 128 + signal.SIGTERM
    assert "Stopped with 0 of 2 runs finished. The same command goes on." in stopped.stderr
    assert not processes_of(output)
    status = manyheads("study", "status", study, "--output", output)
    assert "stopped at" in status.stdout


def test_of_two_studies_at_once_one_trains_and_the_other_waits(study: Path, toy_data: Path) -> None:
    study = write(toy_data, {**STUDY, "variants": {"plain": {}}, "set": {"training.epochs": 40}, "seeds": 1})
    output = toy_data / "shared"
    first = start_study(study, output, jobs=1)
    wait_until(lambda: runs_in_training(output))
    second = run(study, output)
    assert second.returncode == 0, second.stderr
    assert "plain, seed 0" in first.wait().stderr
    assert "plain, seed 0" not in second.stderr, "it would be on the board if it had been started again"


def test_a_finished_run_is_not_started_whoever_finished_it(finished_runs: Path, toy_data: Path) -> None:
    """Between looking for its result and getting its lock another study may have finished it."""
    opened = open_study(str(finished_runs), None, toy_data / "studies", {})
    identity, planned = opened.runs[0]
    assert start_run(opened.folder, identity, planned, 1) is None


def test_rows_that_are_the_same_runs_are_not_compared(finished_runs: Path, toy_data: Path) -> None:
    study, output = finished_runs, toy_data / "studies"
    identity, planned = open_study(str(study), None, output, {}).runs[0]
    assert planned.label == "plain, seed 0"
    (output / "results" / f"{identity}.json.gz").unlink()
    shutil.rmtree(output / "runs" / identity)
    content = {**STUDY, "variants": {"plain": {}, "rate {learning_rate}": {"grid": {
        "training.learning_rate": [1e-3, 1e-4]}}}}  # fmt: skip
    result = run(write(toy_data, content), output)
    assert result.returncode == 0, result.stderr
    assert "4 runs, 3 finished before" in result.stderr
    assert "plain, seed 0" in result.stderr, "of rows that share a run the first names it"
    assert "rate 0.001, seed" not in result.stderr
    assert "hold for all 3 of them together" in result.stdout, "two tasks and the overall score of one row"
    rows = [row for row in csv_table(study, output) if row["variant"] == "rate 0.001"]
    assert [row["verdict"] for row in rows] == ["", "", ""]
    assert {(row["steps"], row["examples"]) for row in rows} == {("6.0", "84.0")}


def test_results_count_as_finished_on_another_machine(finished_runs: Path, toy_data: Path) -> None:
    study, here, there = finished_runs, toy_data / "studies", toy_data / "there"
    file = toy_data / "out.jsonl.gz"
    result = manyheads("study", "export", study, "--output", here, "--to", file)
    assert "4 runs →" in result.stdout, result.stderr
    text = gzip.decompress(file.read_bytes()).decode()
    assert "the film was" not in text, "no texts"
    assert "a man plays" not in text
    assert "4 new runs" in manyheads("study", "import", file, "--output", there).stdout
    assert "0 new runs" in manyheads("study", "import", file, "--output", there).stdout
    assert csv_table(study, there) == csv_table(study, here)
    assert "4 runs, 4 finished before" in run(study, there).stderr
    status = json.loads(manyheads("study", "status", study, "--output", there, "--json").stdout)
    assert [line["folder"] for line in status] == [f"{line['identity']} (result only)" for line in status]
    whole, empty = file.read_bytes(), toy_data / "empty"
    lines = text.splitlines()
    unlike = {
        b"something else": "not a file that `manyheads study export`",
        whole[: len(whole) // 2]: "not a file that `manyheads study export`",
        gzip.compress(b'{"run": {"identity": "abc"}}'): "run 'abc' lacks seed, tasks, dev",
        gzip.compress(
            text.replace('"history":[{', '"history":"","other":[{').encode()
        ): "has a history that is no list",
        gzip.compress(text.replace('"explained":[', '"explained":[0.5,').encode()): "has a pca of something else",
        gzip.compress(text.replace('"overall":', '"Overall":', 2).encode()): "lacks overall",
        gzip.compress("\n".join(lines[1:]).encode()): "lacks",  # the first has dev rows
    }
    for content, words in unlike.items():
        file.write_bytes(content)
        check_refused(manyheads("study", "import", file, "--output", empty), words, "[not-an-export]")
    assert not (empty / "results").exists(), "nothing of a file that is not whole"
    check_refused(manyheads("study", "export", study, "--output", toy_data / "no", "--to", file), "[no-finished-run]")


def test_results_of_version_0_1_are_still_read(finished_runs: Path, toy_data: Path) -> None:
    """It called predictions answers, in results, in exports and in a run's dev.safetensors."""
    from safetensors.numpy import load_file, save_file

    from manyheads.inference.prediction_files import read_dev_predictions

    study, output = finished_runs, toy_data / "studies"
    imported, file = toy_data / "imported", toy_data / "out.jsonl.gz"
    expected = csv_table(study, output)
    for result in (output / "results").glob("[!d]*.json.gz"):
        record = json.loads(gzip.decompress(result.read_bytes()))
        assert "answers" not in record
        record["answers"] = record.pop("predictions")
        result.write_bytes(gzip.compress(json.dumps(record).encode()))
    assert csv_table(study, output) == expected
    assert manyheads("study", "export", study, "--output", output, "--to", file).returncode == 0
    text = gzip.decompress(file.read_bytes()).decode()
    assert text.count('"predictions":') >= 4
    exported = [json.loads(line) for line in text.splitlines()]
    assert not any("answers" in line.get("run", {}) for line in exported), "an export has today's words"
    old_lines = []
    for line in text.splitlines():
        content = json.loads(line)
        if "run" in content:
            content["run"]["answers"] = content["run"].pop("predictions")
        old_lines.append(json.dumps(content))
    file.write_bytes(gzip.compress("\n".join(old_lines).encode()))
    assert "4 new runs" in manyheads("study", "import", file, "--output", imported).stdout
    assert csv_table(study, imported) == expected
    tensor_file = next((output / "runs").glob("*/dev.safetensors"))
    tensors = load_file(tensor_file)
    assert {"mood.predictions", "mood.labels"} < set(tensors)
    old = {name.replace(".predictions", ".answers"): tensor for name, tensor in tensors.items()}
    save_file(old, toy_data / "old.safetensors")
    read = read_dev_predictions(toy_data / "old.safetensors")
    assert set(read) == set(tensors)
    assert all((read[name] == tensors[name]).all() for name in tensors)


def test_the_first_of_several_seeds_is_not_compared(finished_runs: Path, toy_data: Path) -> None:
    study, output = finished_runs, toy_data / "studies"
    record = {file: json.loads(gzip.decompress(file.read_bytes())) for file in (output / "results").glob("[!d]*.gz")}
    second = [file for file, one in record.items() if one["seed"] == 1]
    assert len(second) == 2
    for file in second:  # of either row
        content = file.read_bytes()
        file.unlink()
        assert all(row["difference"] == "" for row in csv_table(study, output))
        shown = manyheads("study", "table", study, "--output", output).stdout
        assert "1 of 2 seeds; one alone is not compared yet." in shown
        assert "Differences" not in shown
        file.write_bytes(content)


def test_single_task_baselines_make_a_transfer_matrix(study: Path, toy_data: Path) -> None:
    content = {**STUDY, "variants": {"shared": {}}, "baselines": "single-task", "equal": ["examples", "steps"]}
    train_here(write(toy_data, content), toy_data / "studies")
    result = run(study, toy_data / "studies")
    assert result.returncode == 0, result.stderr
    for equal in ("examples", "steps"):
        start = result.stdout.index(f"Transfer at equal {equal}: what joint training changes")
        lines = [line for line in result.stdout[start:].splitlines() if line.startswith(("mood ", "near "))][:2]
        assert len(lines) == 2
        assert all(line.split()[1].startswith((".", "−", "1")) for line in lines), lines
        assert f"Transfer at equal {equal}: changes are from the task alone" in result.stdout
    assert result.stdout.count("hold for all 2 of them together, apart from others") == 2
    rows = csv_table(study, toy_data / "studies")
    found = [(row["variant"], row["column"], row["compared_with"]) for row in rows if row["compared_with"]]
    assert found == [
        ("shared", "mood", "mood alone"), ("shared", "near", "near alone"),
        ("shared", "mood", "mood alone, equal steps"), ("shared", "near", "near alone, equal steps"),
    ]  # fmt: skip
    more = write(toy_data, {**content, "seeds": 3})
    shown = manyheads("study", "table", more, "--output", toy_data / "studies").stdout
    assert "Not finished: mood alone, 1 of 3 seeds." in shown


def test_at_equal_examples_a_task_gets_the_batches_that_it_gets_beside_others(study: Path, toy_data: Path) -> None:
    from manyheads.console import Reporter
    from manyheads.tasks.resolve import load_recipe
    from manyheads.training.setup import assemble

    def batches(**more: Any) -> list[list[int]]:
        recipe = load_recipe(toy_data / "base.yaml", {"sampler": "proportional", **more})
        setup = assemble(recipe, Reporter(quiet=True))
        drawn = [b for step in range(setup.schedule.steps) for one in setup.rounds(step) for b in one]
        assert more == {} or {b.task for b in drawn} == {"near"}
        return [b.indices.tolist() for b in drawn if b.task == "near"]

    assert batches() == batches(**{"training.active_tasks": ["near"]})


def test_a_confusion_matrix_counts_every_dev_example(finished_runs: Path, toy_data: Path) -> None:
    content = {
        **STUDY,
        "layout": "confusion",
        "metrics": ["mood"],
        "published": {"plain": [[1, 2, 3, 4]] * 4},
        "seeds": 1,
    }
    result = run(write(toy_data, content), toy_data / "studies")
    assert result.returncode == 0, result.stderr
    lines = result.stdout[result.stdout.index("plain: mood") :].splitlines()[2:6]
    assert [line.split()[0] for line in lines] == ["0", "1", "2", "3"]
    assert sum(int(cell) for line in lines for cell in line.split()[1:5]) == 16
    assert all(line.split()[5:] == ["1", "2", "3", "4"] for line in lines), "the paper's beside ours"


def test_faults_are_said(study: Path, toy_data: Path) -> None:
    check_refused(manyheads("study", "run", "nowhere"), "No study 'nowhere'", "papers/e1-encodings", "[unknown-study]")
    check_refused(manyheads("study", "run", "papers/e1"), "Did you mean 'papers/e1-encodings'?")
    check_refused(
        manyheads("study", "import", toy_data / "no.gz"),
        "no.gz: no such file; `manyheads study export",
        "[missing-file]",
    )
    check_refused(
        manyheads("study", "table", study, "--output", toy_data / "no"), "no run is finished yet", "[no-finished-run]"
    )
    check_refused(
        run(study, toy_data / "no", "--only", "plan"), "no row 'plan'", "Did you mean 'plain'", "[unknown-row]"
    )
    check_refused(
        manyheads("study", "table", study, "--format", "word"),
        "expected terminal, markdown, csv or json",
        "[unknown-format]",
    )
    check_refused(run(study, toy_data / "no", "seed=5"), "command line: seed: a study sets the seed", "[seed-is-set]")
    numbers = write(toy_data, {**STUDY, "layout": "confusion", "metrics": ["near"], "seeds": 1})
    check_refused(run(numbers, toy_data / "no"), "task 'near' has no classes", "[no-classes]")
    unmeasured = write(toy_data, {**STUDY, "metrics": ["near.accuracy"], "seeds": 1})
    check_refused(
        run(unmeasured, toy_data / "no"), "task 'near' is not measured by 'accuracy'", "pearson", "[unknown-metric]"
    )
    counts = {"plain": [[1, 2, 3]] * 3}
    wrong = {"layout": "confusion", "metrics": ["mood"], "published": counts, "seeds": 1}
    check_refused(
        run(write(toy_data, {**STUDY, **wrong}), toy_data / "no"),
        "published.plain: expected 4 rows of 4",
        "[published-figures]",
    )
    assert not (toy_data / "no" / "runs").exists(), "nothing was trained for tables that cannot be made"
    broken = {"training.learning_rate": 1e9, "training.max_grad_norm": None, "encoder.dropout": 0.0}
    failing = write(toy_data, {**STUDY, "variants": {"broken": broken}, "seeds": 1})
    check_refused(
        run(failing, toy_data / "no"),
        "no run could be finished; `manyheads study status` says why",
        "[no-finished-run]",
    )
    write(toy_data, STUDY)
    (toy_data / "mood.csv").unlink()
    check_refused(run(study, toy_data / "no"), "no file 'mood.csv'")


def test_checkpoints_are_chosen_on_a_part_of_train_if_wanted(study: Path, toy_data: Path) -> None:
    recipe = toy_data / "base.yaml"
    result = manyheads("train", recipe, "evaluate.select=0.25", f"output={toy_data / 'runs'}")
    assert result.returncode == 0, result.stderr
    assert "mood: 6 rows of train are held out to choose checkpoints on" in result.stderr
    metrics = json.loads((toy_data / "runs" / "base" / "metrics.json").read_text())
    assert metrics["model"]["chosen_on"].startswith("held-out train examples: mood 6 of 6")
    assert metrics["dev"]["examples"] == {"mood": 16, "near": 12}
    seen = [json.loads(line) for line in (toy_data / "runs" / "base" / "log.jsonl").read_text().splitlines()]
    assert all(one["examples"]["mood"] == 6 for one in seen if one["event"] == "evaluate"), "dev stays untouched"

"""What README and docs say still holds."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from command import manyheads
from manyheads import load_recipe
from manyheads.registry import parts

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def test_generated_blocks_are_up_to_date() -> None:
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    for file in generate["FILES"]:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert generate["fill"](text) == text, f"{file}: run `make docs`"
    assert "`batch-round-robin`" in (ROOT / "docs" / "parts.md").read_text(encoding="utf-8")
    assert "`training.learning_rate`" in (ROOT / "docs" / "recipe.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).is_file(), target


@pytest.mark.slow
def test_the_readmes_python_lines_run(
    toy_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As printed, but for a small encoder and few steps."""
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert len(code) == 1
    lines = [line for line in code[0].splitlines() if line.strip()]
    assert len(lines) <= 7
    small = f'train("demo", {{"encoder": {str(toy_encoder)!r}, "training.max_steps": 3}})'
    assert 'train("demo")' in code[0]
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(code[0].replace('train("demo")', small), names)
    printed = capsys.readouterr().out
    assert "'prediction':" in printed
    assert "paraphrase" in printed or "different" in printed
    assert (tmp_path / "runs" / "demo" / "metrics.json").is_file()


def test_the_readmes_recipes_are_valid(tmp_path: Path) -> None:
    recipes = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert len(recipes) == 2
    assert len(recipes[0].strip().splitlines()) == 3, "three lines are enough"
    for text in recipes:
        load_recipe(yaml.safe_load(text))


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.S)


def small(folder: Path, toy_encoder: Path) -> list[str]:
    return [f"encoder={toy_encoder}", "training.epochs=1", f"output={folder / 'runs'}"]


@pytest.mark.slow
def test_add_my_own_task_as_the_page_says(toy_encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "tickets.csv").write_text(blocks("tasks.md", "csv")[0])
    (tmp_path / "tickets.yaml").write_text(blocks("tasks.md", "yaml")[0])
    checked = manyheads("check", tmp_path / "tickets.yaml", f"encoder={toy_encoder}")
    assert checked.returncode == 0, checked.stdout
    assert "no faults found" in checked.stdout
    result = manyheads("train", tmp_path / "tickets.yaml", *small(tmp_path, toy_encoder))
    assert result.returncode == 0, result.stderr
    prediction = manyheads("predict", tmp_path / "runs" / "tickets", "--text", "where is my parcel?")
    assert prediction.stdout.split("\t")[0] in ("delivery", "bug", "account")


@pytest.mark.slow
def test_add_my_own_head_or_loss_as_the_page_says(toy_encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "my_parts.py").write_text(blocks("own-parts.md", "python")[0])
    (tmp_path / "own.yaml").write_text(blocks("own-parts.md", "yaml")[0])
    rows = "".join(f"the film was good {i},{i % 5 + 0.5}\n" for i in range(20))
    (tmp_path / "scores.csv").write_text("text,score\n" + rows)
    result = manyheads("train", tmp_path / "own.yaml", *small(tmp_path, toy_encoder))
    assert result.returncode == 0, result.stderr
    assert "(losses/huber, heads/gated)" in result.stderr
    assert "(single, mean, gated, huber)" in result.stderr
    own = tmp_path / "my_parts.py"
    prediction = manyheads("predict", tmp_path / "runs" / "own", "--text", "a good film", "--imports", own)
    assert float(prediction.stdout) == float(prediction.stdout)


@pytest.mark.slow
def test_a_combination_of_my_own_as_the_page_says(recipe_file: Callable[..., Path], toy_data: Path) -> None:
    (toy_data / "mine.py").write_text(blocks("combining.md", "python")[0])
    for name in ("squares", "unit-length"):
        file = recipe_file(imports=["mine.py"], combine=name, name=name)
        result = manyheads("train", file)
        assert result.returncode == 0, result.stderr
        assert "(scalarizers/squares, aggregators/unit-length)" in result.stderr
    assert "gradients by unit-length: 2 copies of the shared gradient" in result.stderr


def test_pictures_of_samplers_are_up_to_date() -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "draw_samplers.py"))
    page = (ROOT / "docs" / "sampling.md").read_text(encoding="utf-8")
    for part in parts("samplers"):
        file = ROOT / "docs" / "samplers" / f"{part.name}.svg"
        assert file.read_text(encoding="utf-8") == drawn["draw"](part), f"{part.name}: run `make docs`"
        assert f"(samplers/{part.name}.svg)" in page


@pytest.mark.parametrize("page", ["encodings.md", "pooling.md", "heads.md", "losses.md", "combining.md", "tasks.md"])
def test_recipes_on_the_pages_are_valid(page: str) -> None:
    found = blocks(page, "yaml")
    assert found
    for text in found:
        load_recipe({"tasks": {"sst": {"train": "sst.csv"}}, **yaml.safe_load(text)})

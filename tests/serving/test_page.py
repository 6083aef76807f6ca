"""The page in a real browser, with the real server behind it."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import FOUND, Browser
from manyheads.inference.predictor import Predictor
from running_server import RunningServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(FOUND is None, reason="no Chromium here: the page is not looked at in a browser"),
]
SCREENS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
HOSTILE = "<img src=x onerror=alert(1)> a good film"


@pytest.fixture(scope="module")
def server(saved_model: Path) -> Iterator[RunningServer]:
    with RunningServer(saved_model) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    browser = Browser()
    yield browser
    browser.close()


def wait_for(browser: Browser, condition: str) -> Any:
    until = time.monotonic() + 20
    while True:
        value = browser.evaluate(condition)
        if value:
            return value
        assert time.monotonic() < until, condition
        time.sleep(0.05)


def type_into(browser: Browser, identity: str, text: str) -> None:
    browser.evaluate(f"document.getElementById({identity!r}).focus()")
    browser.evaluate(f"document.getElementById({identity!r}).select?.()")
    browser.ask("Input.insertText", text=text)


def click(browser: Browser, identity: str) -> None:
    browser.evaluate(f"document.getElementById({identity!r}).click()")


def shown_predictions(browser: Browser) -> dict[str, str]:
    """Task → what its card says."""
    script = "[...document.querySelectorAll('#result [data-task]')]"
    script += ".map(card => [card.dataset.task, card.querySelector('.prediction').textContent])"
    return dict(browser.evaluate(script))


def check_clean(browser: Browser, server: RunningServer) -> None:
    assert browser.complaints() == []
    assert all(url.startswith((server.url, "data:", "blob:")) for url in browser.requests())
    assert browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_text_and_a_pair(screen: str, dark: bool, server: RunningServer, browser: Browser, saved_model: Path) -> None:
    browser.open(server.url + "/", **SCREENS[screen], dark=dark, phone=screen == "phone")
    wait_for(browser, "!document.getElementById('app').hidden")
    type_into(browser, "text", HOSTILE)
    click(browser, "predict")
    wait_for(browser, "document.querySelectorAll('#result [data-task] .prediction').length >= 3")
    predictor = Predictor.open(saved_model)
    shown = shown_predictions(browser)
    assert set(shown) == {"mood", "topics", "length"}
    assert shown["mood"] == predictor.predict("mood", [HOSTILE])[0]["prediction"]
    assert browser.evaluate("document.querySelectorAll('#result img').length") == 0
    click(browser, "shape-two")
    type_into(browser, "text", "a good film")
    type_into(browser, "text2", "no end")
    click(browser, "predict")
    wait_for(browser, "!!document.querySelector('#result [data-task=same]')")
    shown = shown_predictions(browser)
    assert set(shown) == {"same", "near"}
    assert shown["same"] == predictor.predict("same", [("a good film", "no end")])[0]["prediction"]
    check_clean(browser, server)


def test_words_that_mattered_and_code_to_copy(server: RunningServer, browser: Browser) -> None:
    browser.open(server.url + "/", **SCREENS["desktop"], dark=False)
    wait_for(browser, "!document.getElementById('app').hidden")
    click(browser, "explain")
    type_into(browser, "text", "a good film it's")
    click(browser, "predict")
    wait_for(browser, "!!document.querySelector('#result [data-task=mood]')")
    assert "good" in browser.evaluate("document.querySelector('#result [data-task=mood]').textContent")
    click(browser, "copy-curl")
    snippet = wait_for(browser, "document.getElementById('snippet').value")
    assert snippet.startswith("curl")
    assert "it'\\''s" in snippet
    check_clean(browser, server)


def drop(browser: Browser, file: Path, x: int, y: int) -> None:
    """A file dragged from the desktop, as the browser itself sees it."""
    data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
    for event in ("dragEnter", "dragOver", "drop"):
        browser.ask("Input.dispatchDragEvent", type=event, x=x, y=y, data=data)


@pytest.mark.parametrize("screen", SCREENS)
def test_a_dropped_csv_is_answered_row_by_row(
    screen: str, server: RunningServer, browser: Browser, saved_model: Path, tmp_path: Path
) -> None:
    browser.open(server.url + "/", **SCREENS[screen], dark=False, phone=screen == "phone")
    wait_for(browser, "!document.getElementById('app').hidden")
    rows = [f"a good film {number}" for number in range(150)] + ['with "quotes", and a comma']
    lines = ["id,text"]
    for number, text in enumerate(rows):
        quoted = text.replace('"', '""')
        lines.append(f'{number},"{quoted}"')
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(lines))
    drop(browser, file, x=200, y=300)  # though the page still shows where to type one text
    wait_for(browser, "!document.getElementById('columns').hidden")
    click(browser, "run-many")
    wait_for(browser, f"document.querySelectorAll('#many-table tbody tr').length == {len(rows)}")
    last_row = browser.evaluate("document.querySelector('#many-table tbody tr:last-child').textContent")
    header = browser.evaluate("document.querySelector('#many-table thead').textContent")
    assert rows[-1] in last_row
    assert "mood" in header
    expected = Predictor.open(saved_model).predict("mood", [rows[-1]])[0]["prediction"]
    assert expected in last_row
    check_clean(browser, server)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_rows_of_a_csv_can_be_matched(server: RunningServer, browser: Browser, tmp_path: Path, line_end: str) -> None:
    """Numbers are those of a spreadsheet: the names are row 1, and rows without a text count."""
    browser.open(server.url + "/", **SCREENS["desktop"], dark=False)
    wait_for(browser, "!document.getElementById('app').hidden")
    file = tmp_path / "rows.csv"
    lines = ["id,text", "a,good", "b,", "c,film", "", '"d",' + f'"two{line_end}lines"', "e,", "f,end", "", ""]
    file.write_bytes(line_end.join(lines).encode())
    drop(browser, file, x=200, y=300)
    wait_for(browser, "!document.getElementById('columns').hidden")
    browser.evaluate("document.getElementById('column1').value = 1")
    click(browser, "run-many")
    summary = wait_for(browser, "document.getElementById('many-summary').textContent")
    assert summary.startswith("4 inputs, 3 empty rows left out, ")
    rows = list(csv.DictReader(io.StringIO(browser.evaluate("manyCsv(state.many)"), newline="")))
    assert [row["row"] for row in rows] == ["2", "4", "6", "8"]
    assert [row["text"] for row in rows] == ["good", "film", f"two{line_end}lines", "end"]
    check_clean(browser, server)


def test_empty_lines_are_counted(server: RunningServer, browser: Browser) -> None:
    browser.open(server.url + "/", **SCREENS["desktop"], dark=False)
    wait_for(browser, "!document.getElementById('app').hidden")
    show_many(browser, ["good", "", "film", "", ""])  # those at the end are not missed by anyone
    summary = wait_for(browser, "document.getElementById('many-summary').textContent")
    assert summary.startswith("2 inputs, 1 empty line left out, ")
    rows = list(csv.DictReader(io.StringIO(browser.evaluate("manyCsv(state.many)"), newline="")))
    assert [row["line"] for row in rows] == ["1", "3"]


def show_many(browser: Browser, lines: list[str]) -> None:
    click(browser, "mode-many")
    type_into(browser, "lines", "\n".join(lines))
    click(browser, "run-many")


def test_many_lines_keep_to_the_servers_limits(saved_model: Path, browser: Browser) -> None:
    with RunningServer(saved_model, "--inputs", "50", "--body-bytes", "1000") as server:
        browser.open(server.url + "/", **SCREENS["desktop"], dark=False)
        wait_for(browser, "!document.getElementById('app').hidden")
        assert "50 at once" in browser.evaluate("document.getElementById('many-limit').textContent")
        show_many(browser, ["film"] * 120 + ["a long line, ünïcödé too " * 10] * 6)
        wait_for(browser, "document.querySelectorAll('#many-table tbody tr').length == 126")
        assert browser.evaluate("document.getElementById('alert').textContent") == ""
        show_many(browser, ["film"] * 7 + ["a longer line " * 100])
        alert = wait_for(browser, "document.getElementById('alert').textContent")
        assert alert.startswith("Line 8: The body is larger")


def test_an_error_names_the_line(saved_model: Path, browser: Browser) -> None:
    with RunningServer(saved_model, "--refuse-long", "--inputs", "50") as server:
        browser.open(server.url + "/", **SCREENS["desktop"], dark=False)
        wait_for(browser, "!document.getElementById('app').hidden")
        show_many(browser, ["film"] * 60 + [""] + ["film"] * 9 + ["a good film " * 600])
        alert = wait_for(browser, "document.getElementById('alert').textContent")
        assert alert.startswith("Line 71: longer than")


def test_similarity_of_two_texts(server: RunningServer, browser: Browser, saved_model: Path) -> None:
    browser.open(server.url + "/", **SCREENS["phone"], dark=True, phone=True)
    wait_for(browser, "!document.getElementById('app').hidden")
    click(browser, "mode-similarity")
    type_into(browser, "similarity-text", "a good film")
    type_into(browser, "similarity-text2", "no end")
    click(browser, "similarity-run")
    shown = wait_for(browser, "document.getElementById('similarity-value').textContent.trim()")
    first, second = Predictor.open(saved_model).embed(["a good film", "no end"], normalize=True)
    assert f"{first @ second:.3f}" in shown.replace("−", "-")
    check_clean(browser, server)

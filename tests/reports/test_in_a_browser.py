"""Reports as people see them: in a real Chromium, wide and narrow, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import FOUND, Browser
from hostile import HOSTILE
from manyheads.reports.write import write_comparison, write_report, write_study_report
from manyheads.studies.study import OpenStudy

pytestmark = [
    pytest.mark.skipif(FOUND is None, reason="no Chromium here: reports are not looked at in a browser"),
    pytest.mark.slow,
]

SCREENS = {
    "desktop": {"width": 1280, "height": 900, "phone": False},
    "phone": {"width": 390, "height": 844, "phone": True},
}
PROMISED = {
    "run": [
        *("headline", "look", "dev-metrics", "losses", "examples-seen", "rates", "weights", "gradients"),
        *("conflict-map", "conflict-table", "metrics-sst", "confusion-sst", "classes-sst", "curves-sst"),
        *("calibration-sst", "error-sizes-sst", "confusion-qqp", "curves-qqp", "calibration-qqp", "scatter-sts"),
        *("distributions-sts", "pca-sst", "pca-qqp", "pca-sts", "slices-sst", "slices-qqp", "slices-sts"),
    ],
    "hostile": [
        *("headline", "look", "dev-metrics", "losses", "examples-seen", "weights", "conflict-map", "conflict-table"),
        *("confusion-odd", "curves-odd", "pca-odd", "confusion-many", "confused-many", "curves-many", "pca-many"),
        *("confusion-two", "confusion-Two", "classes-several", "curves-several", "slices-several"),
    ],
    "comparison": [
        "headline",
        "look",
        "metric-table",
        "changes",
        "curves",
        "settings-1",
        "examples-sst",
        "examples-sts",
    ],
    "study": [
        *(
            "look",
            "values",
            "means-sst",
            "means-sts",
            "differences",
            "differences-sst",
            "cost-plot",
            "transfer-examples",
        ),
        *("transfer-table-examples", "covers-1", "task-bars", "bars-sst", "curves-sst", "losses-qqp", "curves-overall"),
        *("row-1", "progress-2", "confusion-1-sst", "roc-1-qqp", "scatter-2-sts", "distributions-1-sts", "pca-1-sts"),
        "run-table",
    ],
}
# what sticks out of the figure it belongs to, or of its own box where that box does not scroll
CUT = """
(() => {
  const found = [];
  for (const svg of document.querySelectorAll('figure svg')) {
    const room = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll('text')) {
      const box = text.getBoundingClientRect();
      if (box.width && (box.left < room.left - 1 || box.right > room.right + 1 || box.top < room.top - 2
          || box.bottom > room.bottom + 2)) found.push(`${svg.getAttribute('aria-label')}: ${text.textContent}`);
    }
  }
  for (const one of document.querySelectorAll('h1, h2, h3, p, li, td, th, figcaption, nav, summary')) {
    if (one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== 'auto'
        && one.clientWidth) found.push(`<${one.tagName}> ${one.textContent.slice(0, 60)}`);
  }
  return found;
})()
"""
# level texts that lie on one another
OVERLAPS = """
(() => {
  const found = [];
  for (const svg of document.querySelectorAll('figure svg')) {
    const boxes = [...svg.querySelectorAll('text')].filter(one => Math.abs(one.getCTM().b) < .01)
      .map(one => [one.textContent.trim(), one.getBoundingClientRect()]);
    for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
      const [a, b] = [boxes[i][1], boxes[j][1]];
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 3 && down > 0.4 * Math.min(a.height, b.height) && a.width && b.width
          && !boxes[i][0].match(/^[\\d.,−+≈ ]*$/)) found.push(`${boxes[i][0]} | ${boxes[j][0]}`);
    }
  }
  return found;
})()
"""
CONTRAST = """
(() => {
  const light = name => {
    const probe = document.createElement('span');
    probe.style.color = getComputedStyle(document.documentElement).getPropertyValue(name);
    document.body.append(probe);
    const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number);
    probe.remove();
    const [r, g, b] = parts.map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ratio = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  const back = light('--back');
  return {
    back, ink: ratio(light('--ink'), back), soft: ratio(light('--soft'), back), link: ratio(light("--link"), back)
  };
})()
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    one = Browser()
    yield one
    one.close()


@pytest.fixture(scope="module")
def pages(
    smoke_run: Path,
    other_run: Path,
    hostile_run: Path,
    finished_study: OpenStudy,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {
        "run": write_report(smoke_run, folder / "run.html"),
        "hostile": write_report(hostile_run, folder / "hostile.html"),
        "comparison": write_comparison([smoke_run, other_run], folder / "comparison.html"),
        "study": write_study_report(finished_study, folder / "study.html"),
    }


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("kind", PROMISED)
def test_a_page_as_it_is_seen(kind: str, screen: str, dark: bool, browser: Browser, pages: dict[str, Path]) -> None:
    size = SCREENS[screen]
    browser.open(pages[kind], **size, dark=dark)
    browser.evaluate("document.querySelectorAll('details').forEach(group => { group.open = true; })")
    assert browser.complaints() == []
    assert all(url.startswith(("file:", "data:")) for url in browser.requests()), "nothing is loaded from elsewhere"
    shown = {
        key: browser.evaluate(f"(document.getElementById({key!r})?.getBoundingClientRect().height ?? 0) > 20")
        for key in PROMISED[kind]
    }
    assert all(shown.values()), [key for key, seen in shown.items() if not seen]
    width = browser.evaluate("document.documentElement.scrollWidth")
    assert width <= size["width"], "the page does not scroll sideways"
    assert browser.evaluate(CUT) == []
    assert browser.evaluate(OVERLAPS) == []
    smallest = browser.evaluate(
        "Math.min(...[...document.querySelectorAll('figure svg text')].map(one => one.getBoundingClientRect().height)"
        ".filter(height => height > 0))"
    )
    assert smallest >= 8, "letters in figures can be read"
    seen = browser.evaluate(CONTRAST)
    assert (seen["back"] < 0.05) == dark, "the page is dark where dark is wanted"
    assert min(seen["ink"], seen["soft"], seen["link"]) > 4.5, "WCAG AA"
    colours = browser.evaluate(
        "[...new Set([...document.querySelectorAll('figure svg text')].map(one => getComputedStyle(one).fill))]"
    )
    ink = browser.evaluate("getComputedStyle(document.body).color")
    assert ink in colours, "figures take the page's colour"


def test_hostile_words_are_seen_as_they_are(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["hostile"], 1280, 900, dark=False)
    assert browser.evaluate("document.querySelectorAll('script, img, b, i').length") == 0
    ids = browser.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))
    words = browser.evaluate("document.body.textContent")
    for one in HOSTILE:
        assert one[:300] in words
    drawn = browser.evaluate("[...document.querySelectorAll('figure svg text')].map(one => one.textContent.trim())")
    assert {"<b>bold</b>", "\u200b_hidden", "$a_{b$", "زبان"} <= set(drawn)
    assert browser.evaluate("document.querySelector('h1').textContent").startswith("$a_{b$ <i>run:")


def test_a_page_needs_no_javascript(browser: Browser, pages: dict[str, Path]) -> None:
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(pages["run"], 1280, 900, dark=False)
    browser.ask("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.evaluate("document.querySelectorAll('figure svg').length") > 10
    assert browser.evaluate("document.scripts.length") == 0

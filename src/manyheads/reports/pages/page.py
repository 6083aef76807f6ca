"""The page: sections with titles, figures and tables. Whatever comes from data is escaped; nothing is loaded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from manyheads.reports.figures.style import svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CSS = """
:root { color-scheme: light dark; --back: #ffffff; --ink: #1d2733; --soft: #5c6875; --faint: #9aa5b1; --line: #e1e6eb;
  --card: #f6f8fa; --link: #0b62a8; --good: #0a7a3d; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --back: #14181d; --ink: #e3e8ee; --soft: #a3aeba; --faint: #6d7884;
  --line: #2b323a; --card: #1b2128; --link: #6cb6ff; --good: #5bd08b; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 4rem; max-width: 62rem; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; } p { margin: .4rem 0; } a { color: var(--link); }
.soft { color: var(--soft); font-size: .9rem; } .good { color: var(--good); } .bad { color: var(--bad); }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: .8rem 0; font-size: .9rem; }
.figures { columns: 2 27rem; column-gap: 2rem; margin: .6rem 0 .4rem; }
figure { margin: 0; padding-bottom: 1.1rem; break-inside: avoid; }
figure svg { width: 100%; height: auto; max-width: 38rem; display: block; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .2rem; }
.table { overflow-x: auto; margin: .6rem 0 1.2rem; }
table { border-collapse: collapse; font-size: .9rem; min-width: 16rem; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; vertical-align: top; border-bottom: 1px solid var(--line);
  overflow-wrap: normal; }
th { color: var(--soft); font-weight: 600; } td.number { font-variant-numeric: tabular-nums; white-space: pre; }
td.text { min-width: 12rem; unicode-bidi: plaintext; overflow-wrap: anywhere; }
@media (max-width: 40rem) { table { font-size: .82rem; } th, td { padding-right: .6rem; }
  .cards table, .cards tbody, .cards tr { display: block; } .cards thead { display: none; }
  .cards tr { border-bottom: 1px solid var(--line); padding: .4rem 0; }
  .cards td { display: inline-block; border: 0; padding: .1rem 1rem .1rem 0; } .cards td.text { display: block; }
  .cards td:not(.text)::before { content: attr(data-title) " "; color: var(--soft); } }
.look { background: var(--card); border-left: 3px solid var(--link); padding: .6rem .9rem; margin: 1rem 0; }
.look ul { margin: .3rem 0; padding-left: 1.1rem; }
details summary { cursor: pointer; color: var(--link); } pre { overflow-x: auto; font-size: .8rem; }
@media print { body { max-width: none; font-size: 11pt; } figure, tr { break-inside: avoid; }
  nav, #recipe { display: none; } }
"""

NUMBER = re.compile(r"[+−-]?[\d.].{0,45}$", re.DOTALL)  # '.712 ± .008', '+.010 ± .004 better', '2:31': kept on one line


@dataclass
class Section:
    """A heading and what stands beneath it; an empty one is left out."""

    key: str
    title: str
    parts: list[str] = field(default_factory=list)

    def text(self, words: str, kind: str = "") -> Section:
        self.parts.append(f'<p class="{kind}">{escape(words)}</p>' if kind else f"<p>{escape(words)}</p>")
        return self

    def heading(self, words: str) -> Section:
        self.parts.append(f"<h3>{escape(words)}</h3>")
        return self

    def figure(self, drawn: Figure | None, key: str, title: str, caption: str, book: FigureBook) -> Section:
        if drawn is not None:
            book.figures[key] = drawn
            told = f"<figcaption>{escape(caption)}</figcaption>"
            self.parts.append(f'<figure id="{escape(key)}">{svg(drawn, title, key)}{told}</figure>')
        return self

    def table(self, rows: Sequence[dict[str, Any]], key: str = "") -> Section:
        if rows:
            self.parts.append(table(rows, key))
        return self


@dataclass
class FigureBook:
    """The figures of a page by name, to be written as files as well."""

    figures: dict[str, Figure] = field(default_factory=dict)


class Text(str):
    """A cell that holds a user's text: shown in its own direction, and wrapped wherever it must be."""

    __slots__ = ()


def table(rows: Sequence[dict[str, Any]], key: str = "") -> str:
    """Columns are those of the first row."""
    titles = list(rows[0])
    cards = " cards" if any(isinstance(cell, Text) for cell in rows[0].values()) else ""  # rows apart on a phone
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        "<tr>" + "".join(_cell(row.get(title, ""), title if cards else "") for title in titles) + "</tr>"
        for row in rows
    )
    name = f' id="{escape(key)}"' if key else ""
    return f'<div class="table{cards}"{name}><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: Any, title: str) -> str:
    named = f' data-title="{escape(title)}"' if title else ""
    if isinstance(value, Text):
        return f'<td class="text" dir="auto"{named}>{escape(value)}</td>'
    shown = "undefined" if value is None else str(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
    kind = ' class="number"' if NUMBER.match(shown) else ""
    return f"<td{kind}{named}>{escape(shown)}</td>"


def _in_rows(parts: list[str]) -> str:
    """Figures that follow one another stand side by side where there is room."""
    pieces = []
    for is_figure, some in groupby(parts, lambda part: part.startswith("<figure")):
        together = "".join(some)
        pieces.append(f'<div class="figures">{together}</div>' if is_figure else together)
    return "".join(pieces)


def write_page(title: str, lead: Sequence[str], sections: Sequence[Section], notes: Sequence[str] = ()) -> str:
    """The whole file. `lead` is HTML that stands before the first section."""
    kept = [section for section in sections if section.parts]
    links = "".join(f'<a href="#{section.key}">{escape(section.title)}</a>' for section in kept)
    body = "".join(
        f'<section id="{section.key}"><h2>{escape(section.title)}</h2>{_in_rows(section.parts)}</section>'
        for section in kept
    )
    told = f"<h2>Notes</h2><ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>" if notes else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head>\n<body><h1>{escape(title)}</h1>"
        f"{''.join(lead)}<nav>{links}</nav>{body}{told}</body></html>\n"
    )

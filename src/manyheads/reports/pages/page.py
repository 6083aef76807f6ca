"""The page: sections of text, figures and tables. Templates render it and escape everything that comes from data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from manyheads.reports.figures.style import figure_style, inline_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# '.712 ± .008', '+.010 ± .004 better', '2:31': such cells stay on one line
NUMBER = re.compile(r"[+−-]?[\d.].{0,45}$", re.DOTALL)
TEXT_LENGTH = 400  # characters of a user's text that a page shows


class Text(str):
    """A cell with a user's text: the page shows it in its own direction and wraps it anywhere."""

    __slots__ = ()


@dataclass(frozen=True)
class Paragraph:
    template: ClassVar[str] = "paragraph"
    text: str
    style: str = ""


@dataclass(frozen=True)
class Heading:
    template: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Details:
    """Text that opens on a click."""

    template: ClassVar[str] = "details"
    summary: str
    text: str


@dataclass(frozen=True)
class Cell:
    text: str
    style: str
    title: str


@dataclass(frozen=True)
class Table:
    """A table; one with texts becomes a list of cards on a phone."""

    template: ClassVar[str] = "table"
    key: str
    titles: list[str]
    rows: list[list[Cell]]
    has_texts: bool


@dataclass(frozen=True)
class FigureBlock:
    key: str
    title: str  # what screen readers read
    caption: str
    figure: Figure

    @property
    def svg(self) -> Markup:
        return Markup(inline_svg(self.figure, self.title, self.key))


@dataclass(frozen=True)
class FigureRow:
    """Consecutive figures: side by side where there is room."""

    template: ClassVar[str] = "figures"
    figures: list[FigureBlock]


@dataclass(frozen=True)
class Group:
    """Blocks that open on a click."""

    template: ClassVar[str] = "group"
    key: str
    summary: str
    blocks: list[Block]


Block = Paragraph | Heading | Details | Table | FigureRow | Group


@dataclass
class Section:
    """A heading and the blocks below it. A page leaves an empty section out."""

    key: str
    title: str
    blocks: list[Block] = field(default_factory=list)

    def text(self, text: str, style: str = "") -> None:
        self.blocks.append(Paragraph(text, style))

    def heading(self, text: str) -> None:
        self.blocks.append(Heading(text))

    def details(self, summary: str, text: str) -> None:
        self.blocks.append(Details(summary, text))

    def group(self, content: Section) -> None:
        """The blocks of another section, behind its title."""
        if content.blocks:
            self.blocks.append(Group(content.key, content.title, content.blocks))

    def table(self, rows: Sequence[dict[str, Any]], key: str = "") -> None:
        if rows:
            self.blocks.append(make_table(rows, key))

    def figure(self, figure: Figure | None, key: str, title: str, caption: str) -> None:
        """`title` is what screen readers read."""
        if figure is None:
            return
        block = FigureBlock(key, title, caption, figure)
        if self.blocks and isinstance(self.blocks[-1], FigureRow):
            self.blocks[-1].figures.append(block)
        else:
            self.blocks.append(FigureRow([block]))


@dataclass(frozen=True)
class Report:
    """A page, and its figures by name, which can be written as files."""

    html: str
    figures: dict[str, Figure]
    findings: tuple[str, ...] = ()  # what a reader should look at first


def make_table(rows: Sequence[dict[str, Any]], key: str = "") -> Table:
    """Columns are those of the first row."""
    titles = list(rows[0])
    has_texts = any(isinstance(value, Text) for value in rows[0].values())
    cells = []
    for row in rows:
        cells.append([_cell(row.get(title, ""), title) for title in titles])
    return Table(key, titles, cells, has_texts)


def _cell(value: Any, title: str) -> Cell:
    if isinstance(value, Text):
        return Cell(value, "text", title)
    text = str(value)
    if value is None:
        text = "undefined"
    elif isinstance(value, float):
        text = f"{value:.3f}"
    elif isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    if NUMBER.match(text):
        return Cell(text, "number", title)
    return Cell(text, "", title)


def example_texts(texts: Sequence[str]) -> dict[str, Text]:
    """The cells of an example's texts: 'text', or 'text 1' and 'text 2'."""
    cells = {}
    for number, text in enumerate(texts, 1):
        title = "text"
        if len(texts) > 1:
            title = f"text {number}"
        if len(text) > TEXT_LENGTH:
            text = f"{text[:TEXT_LENGTH]} …"
        cells[title] = Text(text)
    return cells


def render_report(
    template: str, title: str, sections: Sequence[Section], notes: Sequence[str], lead: dict[str, Any]
) -> Report:
    """`lead` is what the template shows before the first section."""
    filled = [section for section in sections if section.blocks]
    figures: dict[str, Figure] = {}
    for section in filled:
        figures |= figures_of(section.blocks)
    with figure_style():
        html = _templates().get_template(template).render(title=title, sections=filled, notes=notes, **lead)
    return Report(html, figures)


def figures_of(blocks: Sequence[Block]) -> dict[str, Figure]:
    """Figures by their keys, those within groups too."""
    figures: dict[str, Figure] = {}
    for block in blocks:
        if isinstance(block, FigureRow):
            figures |= {figure.key: figure.figure for figure in block.figures}
        elif isinstance(block, Group):
            figures |= figures_of(block.blocks)
    return figures


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("manyheads.reports.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

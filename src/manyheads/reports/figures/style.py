"""How figures look: one restrained style, colours that colour-blind people can tell apart, real text in SVG.

Lines and letters take the page's own colour, so that one figure serves light and dark pages.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette without yellow and black, which do not show on light or dark pages
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
DASHES = ("-", "--", ":", "-.")
INK = "#1b1b1c"  # of letters, and FAINT of lines: a page replaces both by its own colours
FAINT = "#8a8a8c"
VERDICT_COLOURS = {"better": COLOURS[2], "worse": COLOURS[1], "not distinguishable": FAINT}
WIDTH, HEIGHT = 5.4, 3.2  # inches; a page scales figures to its width, down to a phone
TAG = r"<[^>]*>"


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def line_style(number: int) -> dict[str, Any]:
    """Colour and dashes: the seventh line has the first one's colour, and other dashes."""
    return {"color": colour(number), "linestyle": DASHES[number // len(COLOURS) % len(DASHES)]}


def shorten(name: str, length: int = 14) -> str:
    """A user's name for a figure, which has little room: its beginning and its end, which often tells it apart."""
    if len(name) > length:
        end = length // 2 - 1
        name = f"{name[: length - end - 1]}…{name[-end:]}"
    if name.startswith("_"):  # matplotlib leaves such names out of legends
        return f"\u200b{name}"
    return name


@contextmanager
def figure_style() -> Iterator[None]:
    """matplotlib's settings for drawing figures."""
    import matplotlib as mpl
    from cycler import cycler

    with mpl.rc_context(
        {
            "svg.fonttype": "none",  # letters stay letters
            "text.parse_math": False,  # a dollar in a user's name is a dollar
            "svg.hashsalt": "manyheads",  # the same figure is the same file
            "font.family": "sans-serif",
            "font.size": 10.5,
            "figure.figsize": (WIDTH, HEIGHT),
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": FAINT,
            "axes.labelcolor": INK,
            "axes.titlecolor": INK,
            "axes.titlesize": 11,
            "axes.titlelocation": "left",
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.grid": True,
            "grid.color": FAINT,
            "grid.alpha": 0.25,
            "grid.linewidth": 0.6,
            "lines.linewidth": 1.6,
            "legend.frameon": False,
            "legend.fontsize": 10,
            "axes.prop_cycle": cycler(color=list(COLOURS)),
        }
    ):
        yield


def inline_svg(figure: Figure, title: str, key: str) -> str:
    """A figure as inline SVG: scalable, with a title for screen readers, in the page's colours and fonts.

    Only tags are changed: between them is users' text.
    """
    text = render_figure(figure, "svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = _compact(text)
    text = _prefix_ids(text, f"f{hashlib.sha256(key.encode()).hexdigest()[:8]}")

    def restyle(match: re.Match[str]) -> str:
        tag = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", match[0])
        tag = re.sub(r" font-family: [^;\"]*;", "", tag)  # matplotlib writes either
        tag = tag.replace(INK, "currentColor").replace(FAINT, "var(--faint)")
        if tag.startswith("<svg"):
            tag = re.sub(r' (?:width|height)="[^"]*"', "", tag)
            tag = tag.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)
        return tag

    return re.sub(TAG, restyle, text)


def _compact(text: str) -> str:
    """Coordinates with two decimals, no space between tags. Texts stay as they are."""

    def shorten_tag(match: re.Match[str]) -> str:
        tag = re.sub(r"(\d\.\d\d)\d+", r"\1", match[0])
        return re.sub(r"\s*\n\s*", " ", tag)

    text = re.sub(TAG, shorten_tag, text)
    return re.sub(r">\s+<", "><", text)


def _prefix_ids(text: str, prefix: str) -> str:
    """Make ids differ from those of every other figure; drop those that nothing refers to, and repeated ones."""
    references: set[str] = set()
    for href, url in re.findall(r'<[^>]*(?:href="#([^"]+)"|url\(#([^)]+)\))[^>]*>', text):
        references.add(href or url)
    defined: set[str] = set()

    def rename_id(match: re.Match[str]) -> str:
        name = match[1]
        if name not in references or name in defined:
            return ""
        defined.add(name)
        return f' id="{prefix}-{name}"'

    def rename(match: re.Match[str]) -> str:
        tag = re.sub(r' id="([^"]+)"', rename_id, match[0])
        return re.sub(r"(href=\"#|url\(#)", rf"\g<1>{prefix}-", tag)

    return re.sub(TAG, rename, text)


def render_figure(figure: Figure, form: str) -> bytes:
    """A figure as a file: svg, png or pdf, dark on white."""
    content = io.BytesIO()
    if form == "svg":
        figure.savefig(content, format=form, transparent=True, dpi=200, metadata={"Date": None})
    else:
        figure.savefig(content, format=form, transparent=False, dpi=200, metadata={})
    return content.getvalue()

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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette without yellow and black, which do not show on light or dark pages
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
DASHES = ("-", "--", ":", "-.")
INK = "#1b1b1c"  # of letters and FAINT of lines: on a page its own colours take their place
FAINT = "#8a8a8c"
WIDTH, HEIGHT = 5.4, 3.2  # inches; a page scales figures to what it has room for, down to a phone


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def line(number: int) -> dict[str, str]:
    """Colour and dashes: the seventh line has the first one's colour, and other dashes."""
    return {"color": colour(number), "linestyle": DASHES[number // len(COLOURS) % len(DASHES)]}


def short(name: str, most: int = 14) -> str:
    """A user's name in a figure, where there is little room: its beginning and its end, which often tells it apart."""
    end = most // 2 - 1
    cut = name if len(name) <= most else f"{name[: most - end - 1]}…{name[-end:]}"
    return f"\u200b{cut}" if cut.startswith("_") else cut  # matplotlib leaves such names out of legends


@contextmanager
def styled() -> Iterator[None]:
    """matplotlib's settings while figures are drawn."""
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


def svg(figure: Figure, title: str, key: str) -> str:
    """A figure as inline SVG: no size of its own, a title for those who listen, the page's colours and letters.

    Only what stands in tags is changed: between them are users' own words.
    """
    text = _drawn(figure, "svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    names = {one or other for one, other in re.findall(r'<[^>]*(?:href="#([^"]+)"|url\(#([^)]+)\))[^>]*>', text)}
    prefix = f"f{hashlib.sha256(key.encode()).hexdigest()[:8]}"  # names differ from those of every other figure
    seen: set[str] = set()

    def own_name(found: re.Match[str]) -> str:
        if found[1] not in names or found[1] in seen:
            return ""
        seen.add(found[1])
        return f' id="{prefix}-{found[1]}"'

    def in_tag(found: re.Match[str]) -> str:
        tag = found[0]
        if tag.startswith("<svg"):
            tag = re.sub(r' (?:width|height)="[^"]*"', "", tag)
            tag = tag.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)
        tag = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", tag)
        tag = tag.replace(INK, "currentColor").replace(FAINT, "var(--faint)")
        tag = re.sub(r' id="([^"]+)"', own_name, tag)
        return re.sub(r"(href=\"#|url\(#)", rf"\g<1>{prefix}-", tag)

    return re.sub(r"<[^>]*>", in_tag, text)


def picture(figure: Figure, form: str) -> bytes:
    """A figure as a file for a paper: svg, png or pdf, dark on white."""
    return _drawn(figure, form)


def _drawn(figure: Figure, form: str) -> bytes:
    out = io.BytesIO()
    figure.savefig(
        out, format=form, transparent=form == "svg", dpi=200, metadata={"Date": None} if form == "svg" else {}
    )
    return out.getvalue()

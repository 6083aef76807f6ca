"""How figures look: one restrained style, colours that colour-blind people can tell apart, real text in SVG.

Lines and letters take the page's own colour, so that one figure serves light and dark pages.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette without yellow and black, which do not show on light or dark pages
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
INK = "#1b1b1c"  # of letters and FAINT of lines: on a page its own colours take their place
FAINT = "#8a8a8c"
WIDTH, HEIGHT = 5.4, 3.2  # inches; a page scales figures to what it has room for, down to a phone


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def short(name: str, most: int = 14) -> str:
    """A user's name in a figure, where there is little room; a dollar would begin a formula."""
    cut = name if len(name) <= most else f"{name[: most - 1]}…"
    return cut.replace("$", r"\$")


@contextmanager
def styled() -> Iterator[None]:
    """matplotlib's settings while figures are drawn."""
    import matplotlib as mpl
    from cycler import cycler

    with mpl.rc_context(
        {
            "svg.fonttype": "none",  # letters stay letters
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


def svg(figure: Figure, title: str) -> str:
    """A figure as inline SVG: no size of its own, a title for those who listen, the page's colours."""
    text = _drawn(figure, "svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)  # the page's own letters
    text = text.replace(INK, "currentColor").replace(FAINT, "var(--faint)")
    label = title.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    text = text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
    return _own_names(text, title)


def _own_names(text: str, title: str) -> str:
    """Only names that the figure itself refers to are kept, made different from those of every other figure."""
    prefix = re.sub(r"\W+", "-", title.lower()).strip("-")
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text))
    names = {one or other for one, other in used}
    seen: set[str] = set()

    def renamed(found: re.Match[str]) -> str:
        name = found[1]
        if name not in names or name in seen:
            return ""
        seen.add(name)
        return f' id="{prefix}-{name}"'

    text = re.sub(r' id="([^"]+)"', renamed, text)
    return re.sub(r"(href=\"#|url\(#)", rf"\g<1>{prefix}-", text)


def picture(figure: Figure, form: str) -> bytes:
    """A figure as a file for a paper: svg, png or pdf, dark on white."""
    return _drawn(figure, form)


def _drawn(figure: Figure, form: str) -> bytes:
    out = io.BytesIO()
    figure.savefig(
        out, format=form, transparent=form == "svg", dpi=200, metadata={"Date": None} if form == "svg" else {}
    )
    return out.getvalue()

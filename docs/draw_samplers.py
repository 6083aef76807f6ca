"""Draw what each sampler does: task against step, a mark per batch. `make docs` runs it; a test keeps it current."""

from __future__ import annotations

from pathlib import Path

from manyheads.parts.samplers import SamplerInput
from manyheads.registry import Part, parts

FOLDER = Path(__file__).resolve().parent / "samplers"
SUPPLY = SamplerInput(
    sizes={"small": 12, "large": 120, "middle": 40}, batch_sizes={"small": 4, "large": 4, "middle": 4}, seed=1, epochs=3
)
COLOURS = {"small": "#0072b2", "large": "#d55e00", "middle": "#009e73"}  # told apart by colour-blind readers too
LEFT, TOP, ROW, WIDTH = 64, 22, 22, 640


def draw(part: Part) -> str:
    """An SVG: a line per task, a mark per batch, a thin line where an epoch ends."""
    sampler = part.factory(SUPPLY)
    steps = sum(sampler.epochs)
    scale = WIDTH / steps
    height = TOP + ROW * len(SUPPLY.sizes) + 18
    marks = dict.fromkeys(SUPPLY.sizes, "")
    for step in range(steps):
        for batch in sampler.round(step):
            marks[batch.task] += f"M{LEFT + (step + 0.5) * scale:.1f} 0v12"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 8} {height}" font-family="sans-serif" '
        f'font-size="12" role="img"><title>{part.name}: which task is trained at which step</title>',
        f'<rect width="{LEFT + WIDTH + 8}" height="{height}" fill="#fff"/>',
        f'<text x="{LEFT}" y="14" fill="#333">{part.name}, {SUPPLY.epochs} epochs asked for: {steps} steps</text>',
    ]
    for row, task in enumerate(SUPPLY.sizes):
        y = TOP + row * ROW
        lines.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end" fill="{COLOURS[task]}">{task}</text>')
        width = max(0.8, min(4.0, scale * 0.7))
        stroke = f'stroke="{COLOURS[task]}" stroke-width="{width:.1f}"'
        lines.append(f'<path transform="translate(0 {y})" d="{marks[task]}" {stroke}/>')
    end = 0
    for length in sampler.epochs:
        end += length
        x = LEFT + end * scale
        lines.append(f'<path d="M{x:.1f} {TOP - 4}V{height - 16}" stroke="#999" stroke-width="0.8"/>')
    lines.append(f'<text x="{LEFT}" y="{height - 4}" fill="#666">step 1</text>')
    lines.append(f'<text x="{LEFT + WIDTH}" y="{height - 4}" text-anchor="end" fill="#666">{steps}</text></svg>')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for part in parts("samplers"):
        (FOLDER / f"{part.name}.svg").write_text(draw(part), encoding="utf-8")

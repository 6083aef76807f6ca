"""Tables of what was measured: ratios within a turn first, then figures, medians over turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

from serve_load import Measured
from train import spread

Turns = dict[str, dict[int, list[Measured]]]  # subject → clients → what was measured in each turn
Figure = Callable[[Measured], float]


def rate(measured: Measured) -> float:
    return measured.rate


def p50(measured: Measured) -> float:
    return 1000 * measured.percentile(50)


def p95(measured: Measured) -> float:
    return 1000 * measured.percentile(95)


def p99(measured: Measured) -> float:
    return 1000 * measured.percentile(99)


def server_cpu(measured: Measured) -> float:
    """Milliseconds of a request."""
    return 1000 * measured.server_cpu / max(1, len(measured.latencies))


def client_cpu(measured: Measured) -> float:
    """Per cent of one core."""
    return 100 * measured.client_cpu / measured.seconds


COMPARED: dict[str, Figure] = {"requests/s": rate, "p50": p50, "p95": p95, "p99": p99}
SHOWN: dict[str, Figure] = {
    "requests/s": rate,
    "p50 ms": p50,
    "p95 ms": p95,
    "p99 ms": p99,
    "server CPU ms/request": server_cpu,
    "clients' CPU %": client_cpu,
}


def quotient(one: float, other: float) -> float:
    """Not a number where nothing was answered."""
    return one / other if other else float("nan")


def ratios(measured: list[Measured], base: list[Measured], figure: Figure) -> list[float]:
    """Turn by turn; those without an answer are left out."""
    found: list[float] = []
    for one, other in zip(measured, base, strict=True):
        if one.latencies and other.latencies:
            found.append(figure(one) / figure(other))
    return found


def levels_table(turns: Turns, base: str, levels: Iterable[int], missing: dict[str, str]) -> list[str]:
    """Every subject with every number of clients, against `base`."""
    titles = ["clients", "", *(f"{name} ÷ {base}'" for name in COMPARED), *SHOWN, "errors", "MB before → after"]
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for clients in levels:
        for name, by_clients in turns.items():
            cells = [str(clients), name, *_cells(by_clients[clients], turns[base][clients])]
            lines.append("| " + " | ".join(cells) + " |")
    for name in missing:
        lines.append(f"| | {name} | not installed" + " |" * (len(titles) - 2))
    return lines


def _cells(measured: list[Measured], base: list[Measured]) -> list[str]:
    cells: list[str] = []
    for figure in COMPARED.values():
        found = ratios(measured, base, figure)
        cells.append(spread(found) if found else "–")
    for figure in SHOWN.values():
        cells.append(f"{statistics.median(map(figure, measured)):.1f}")
    cells.append(str(sum(one.errors for one in measured)))
    cells.append(f"{measured[0].megabytes_before:.0f} → {measured[-1].megabytes_after:.0f}")
    return cells


def summaries(turns: Turns) -> list[dict[str, object]]:
    """The same for a program: a line for each subject, number of clients and turn."""
    lines: list[dict[str, object]] = []
    for name, by_clients in turns.items():
        for clients, measured in by_clients.items():
            for turn, one in enumerate(measured):
                lines.append({"subject": name, "clients": clients, "turn": turn, **summary(one)})
    return lines


def summary(measured: Measured) -> dict[str, object]:
    return {
        **{title: figure(measured) for title, figure in SHOWN.items()},
        "statuses": measured.statuses,
        "server CPU s": measured.server_cpu,
        "MB before": measured.megabytes_before,
        "MB after": measured.megabytes_after,
    }

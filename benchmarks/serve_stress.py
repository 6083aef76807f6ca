"""What becomes of a server that gets more than it can do, or is used for long."""

from __future__ import annotations

from serve_load import Measured
from serve_subjects import Subject
from serve_tables import p50, p99, quotient, rate, summary

OVERLOAD = 3  # times what the server can do
FULL_CLIENTS, NORMAL_CLIENTS, SOAK_CLIENTS = 128, 8, 32
EXPECTED = {"200", "429"}
NORMAL_SECONDS = 5.0
Content = dict[str, object]


def overload(subject: Subject, texts: list[str], seconds: float) -> tuple[list[str], Content]:
    """Requests at three times its rate, whether they are answered or not; and whether it serves as before then."""
    full = subject.load(texts, clients=FULL_CLIENTS, seconds=NORMAL_SECONDS, warm_up=1.0)
    before = subject.load(texts, clients=NORMAL_CLIENTS, seconds=NORMAL_SECONDS, warm_up=1.0)
    flooded = subject.load(texts, rate=OVERLOAD * rate(full), seconds=seconds)
    after = subject.load(texts, clients=NORMAL_CLIENTS, seconds=NORMAL_SECONDS, warm_up=1.0)
    others = {status: count for status, count in flooded.statuses.items() if status not in EXPECTED}
    refused = "never" if flooded.first_refusal is None else f"after {flooded.first_refusal:.1f} s"
    lines = [
        "| overload | |",
        "|---|---|",
        f"| requests/s after it ÷ before, {NORMAL_CLIENTS} clients | {quotient(rate(after), rate(before)):.2f} |",
        f"| p50 after it ÷ before | {quotient(p50(after), p50(before)):.2f} |",
        f"| answered/s in it ÷ with {FULL_CLIENTS} clients | {quotient(rate(flooded), rate(full)):.2f} |",
        f"| sent/s | {OVERLOAD * rate(full):.0f} for {seconds:.0f} s |",
        f"| answered (200) | {flooded.statuses.get('200', 0)}, p50 {p50(flooded):.0f} ms, p99 {p99(flooded):.0f} ms |",
        f"| turned away (429) | {flooded.statuses.get('429', 0)}, the first {refused} |",
        f"| anything else | {others or 'none'} |",
        f"| errors after it | {after.errors} |",
        f"| connections | {flooded.connections} |",
        f"| clients' CPU | {100 * flooded.client_cpu / flooded.seconds:.0f} % of a core |",
        f"| MB before → after | {before.megabytes_before:.0f} → {after.megabytes_after:.0f} |",
    ]
    phases = {"full": full, "before": before, "flooded": flooded, "after": after}
    return lines, {name: summary(measured) for name, measured in phases.items()}


def soak(subject: Subject, texts: list[str], requests: int) -> tuple[list[str], Content]:
    """So many requests; resident memory in the beginning, after a tenth of them, and in the end."""
    first: Measured = subject.load(texts, clients=SOAK_CLIENTS, requests=max(1, requests // 10))
    rest: Measured = subject.load(texts, clients=SOAK_CLIENTS, requests=requests - requests // 10)
    growth = rest.megabytes_after / first.megabytes_after
    lines = [
        f"| soak: {requests:,} requests, {SOAK_CLIENTS} clients | |",
        "|---|---|",
        f"| MB in the end ÷ after 10 % | {growth:.3f} |",
        f"| MB before, after 10 %, in the end | {first.megabytes_before:.0f}, {first.megabytes_after:.0f}, "
        f"{rest.megabytes_after:.0f} |",
        f"| requests/s, rest ÷ first 10 % | {quotient(rate(rest), rate(first)):.2f} |",
        f"| errors | {first.errors + rest.errors} |",
    ]
    return lines, {"first tenth": summary(first), "rest": summary(rest)}

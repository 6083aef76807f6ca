"""Texts that would break a careless page."""

HOSTILE = [
    "<script>alert(1)</script> good",
    "a" * 900,
    '"><img src=x onerror=alert(2)> bad',
    "مرحبا بالعالم bad",
    "🎬🍿 great & <b>poor</b> $x_{",
]

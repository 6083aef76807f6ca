"""How labels are spelt: 1, 1.0 and ' 1 ' are one label, in recipes and in files."""

from __future__ import annotations

import math
from typing import Any


def normalise(value: Any) -> str:
    """One spelling per label: 1, 1.0, '1.0' and ' 1 ' are '1', True and 'True' are 'true', missing values are ''."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    word = str(value).strip()
    lower = word.lower()
    if lower == "nan":  # how pandas writes a missing value
        return ""
    if lower in ("true", "false"):
        return lower
    number = as_number(word)
    if number is not None and number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return word


def as_number(word: str) -> float | None:
    """The number a word stands for, if it is a finite one."""
    try:
        number = float(word)
    except ValueError:
        return None
    if not math.isfinite(number) or "_" in word:  # Python reads '1_2' as 12
        return None
    return number

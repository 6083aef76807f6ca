"""Windows over long texts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyheads.tokens.windows import OVERLAP, cut_windows


@given(st.integers(0, 400), st.integers(1, 60))
def test_every_token_is_of_one_window_with_tokens_around_it(length: int, room: int) -> None:
    windows = cut_windows(length, room)
    tokens = np.arange(length + 1)  # the last is where a word would begin of which nothing is left
    assert [int(token) + one.start for one in windows for token in one.own(tokens)] == tokens.tolist()
    for window in windows:
        assert window.end - window.start == min(length, room)
        own = window.own(tokens[:-1]) + window.start
        margin = int(room * OVERLAP) // 2
        for token in own.tolist():
            assert token - window.start >= min(margin, token)
            assert window.end - token > min(margin - 1, length - 1 - token)
    assert windows[0].start == 0
    assert windows[-1].end == length

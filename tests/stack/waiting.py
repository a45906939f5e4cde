from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(true: Callable[[], object], what: str, deadline: float) -> None:
    end = time.monotonic() + deadline
    while not true():
        assert time.monotonic() < end, f"not within {deadline} s: {what}"
        time.sleep(0.5)

"""How soon a thread gets its turn while another one computes.

A thread lets go of Python's lock at every system call and has to wait for it again: five milliseconds each time, if
another one is busy. An export over HTTP makes a dozen such calls a batch; beside a busy event loop half of the spans
were dropped for that alone. And while a batch is being encoded, the event loop waits so for every answer of an engine.
"""

from __future__ import annotations

import sys

SECONDS = 0.0005


def short_turns() -> None:
    """For the whole process. Where one thread is busy, as nearly always, it costs nothing."""
    sys.setswitchinterval(SECONDS)

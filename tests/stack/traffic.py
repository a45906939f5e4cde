"""A user of the engine, in a thread: asks for prefixes again, or always for new ones."""

from __future__ import annotations

import random
import threading
import time
from types import TracebackType

import httpx

TOKENS = 300
"""More than the 256 under which the engine leaves a prefix in L3."""


class Traffic:
    """``with Traffic(url):``. ``repeating`` may be changed meanwhile; one prompt in ten is new even then."""

    def __init__(self, url: str, prefixes: int = 6) -> None:
        self.repeating = True
        self._url = url
        self._prefixes = [prompt() for _ in range(prefixes)]
        """More than L1 holds: asked for in turn, each comes back from L2."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask_for_ever, daemon=True)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join(30)

    def _ask_for_ever(self) -> None:
        turn = 0
        with httpx.Client(timeout=20, trust_env=False) as client:
            while not self._over.is_set():
                turn += 1
                again = self.repeating and turn % 10
                tokens = self._prefixes[turn // 2 % len(self._prefixes)] if again else prompt()
                body = {"input_ids": tokens, "sampling_params": {"max_new_tokens": 4, "ignore_eos": True}}
                try:
                    client.post(f"{self._url}/generate", json=body)
                except httpx.HTTPError:
                    time.sleep(0.5)  # the test has stopped the engine
                time.sleep(0.05)


def prompt() -> list[int]:
    return [random.randrange(3, 500) for _ in range(TOKENS)]

"""Endless light traffic for the demo engine: a few prefixes that return after they were pushed out of L1.

Half of the requests repeat one of the last prefixes, which L1 or L2 can serve; the others are new.
"""

from __future__ import annotations

import random
import sys
import time

import httpx

TOKENS = 300
REMEMBERED = 10
PAUSE_SECONDS = 1.0


def main(engine: str) -> None:
    prefixes: list[list[int]] = []
    with httpx.Client(base_url=engine, timeout=60, trust_env=False) as client:
        while True:
            if prefixes and random.random() < 0.5:
                prompt = random.choice(prefixes)
            else:
                prompt = [random.randrange(3, 500) for _ in range(TOKENS)]
                prefixes = [*prefixes[1 - REMEMBERED :], prompt]
            body = {"input_ids": prompt, "sampling_params": {"max_new_tokens": 8, "ignore_eos": True}}
            try:
                client.post("/generate", json=body).raise_for_status()
            except httpx.HTTPError as error:
                print(f"the engine did not answer: {error}", file=sys.stderr)
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])

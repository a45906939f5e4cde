"""Words planted in a long prefix, to be asked for after it has been read back. Pure.

A marker is asked for as a continuation ("The code of the red door is"), which a trained model follows without any
instruction. Whether it does is found out where no read can have spoilt it: right after the prefix was computed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

TokensOf = Callable[[str], Sequence[int]]

SHARE = 0.5
"""At most this much of the prefix is taken by markers: what lies between them must be longer than they are."""
_PLACES = ((0.1, "red door"), (0.5, "blue box"), (0.9, "green safe"))


class Marker(NamedTuple):
    depth: float
    """Where it stands in the prefix, as a share of its length."""
    code: str
    question: tuple[int, ...]


class Planted(NamedTuple):
    prefix: tuple[int, ...]
    markers: tuple[Marker, ...]


def plant(prefix: Sequence[int], tokens_of: TokensOf, salt: str) -> Planted | None:
    """``prefix`` with the markers in place of some of its tokens; None if it is too short for them."""
    rng, tokens, markers, taken = random.Random(salt), list(prefix), [], 0
    for depth, place in _PLACES:
        code = str(rng.randint(1000, 9999))
        asked_with = f"\nThe code of the {place} is"
        sentence = list(tokens_of(f"{asked_with} {code}.\n"))
        taken += len(sentence)
        start = 1 + int(depth * (len(tokens) - 1 - len(sentence)))  # the first token stays: no other prompt has it
        tokens[start : start + len(sentence)] = sentence
        markers.append(Marker(depth, code, tuple(tokens_of(asked_with))))
    if taken > SHARE * len(prefix):
        return None
    return Planted(tuple(tokens[: len(prefix)]), tuple(markers))


def recalled(text: str | None, code: str) -> bool:
    return text is not None and code in text

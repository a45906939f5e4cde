"""Prompts that no cache has seen: random tokens of the model's own vocabulary.

Token ids are never guessed: an id outside the vocabulary kills SGLang's scheduler. They come from the engine's
tokenizer, which is asked once for the tokens of a long random text.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from hicache_proof.lab.errors import CannotRunError

_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "0123456789.,;:!?+-*/=()[]{}",
    "àâçéèêëîïôùûüñßæøå",
    "абвгдежзийклмнопрстуфхцчшщыэюя",
    "αβγδεζηθικλμνξοπρστυφχψω",
)
_WORDS = 4000
_FEWEST_TOKENS = 32


def sample_text(rng: random.Random) -> str:
    """Random words of several alphabets, long enough to touch some hundreds of tokens of any tokenizer."""
    words = []
    for _ in range(_WORDS):
        alphabet = rng.choice(_ALPHABETS)
        words.append("".join(rng.choice(alphabet) for _ in range(rng.randint(1, 8))))
    return " ".join(words)


def vocabulary(ids: Iterable[int]) -> tuple[int, ...]:
    """The distinct ids, in order. Raises CannotRunError if there are too few for prompts that differ."""
    distinct = tuple(sorted(set(ids)))
    if len(distinct) < _FEWEST_TOKENS:
        raise CannotRunError(
            f"the engine's tokenizer knows only {len(distinct)} different tokens of the lab's text, which is too few "
            "for prompts that differ; give a range of token ids with --token-ids"
        )
    return distinct


class Prompts:
    """Draws token sequences. Those of one instance start with different tokens, so that none is a prefix of another.

    Across runs the salt (the seed) makes them differ from whatever the cache holds: a random prompt shares its first
    token with an old one once in a while, and two tokens practically never.
    """

    def __init__(self, vocabulary: Sequence[int], salt: str) -> None:
        self._vocabulary = vocabulary
        self._rng = random.Random(salt)
        self._heads = self._rng.sample(vocabulary, len(vocabulary))
        self._drawn = 0

    def fresh(self, tokens: int) -> tuple[int, ...]:
        """A prompt of ``tokens`` tokens that no earlier one of this run starts like."""
        head = self._heads[self._drawn % len(self._heads)]
        self._drawn += 1
        return (head, *self._rng.choices(self._vocabulary, k=tokens - 1))

    def question(self, tokens: int, unlike: Sequence[int] = ()) -> tuple[int, ...]:
        """What follows a prefix; its first token differs from that of ``unlike``, so the two part at once."""
        while True:
            drawn = tuple(self._rng.choices(self._vocabulary, k=tokens))
            if not unlike or drawn[0] != unlike[0]:
                return drawn

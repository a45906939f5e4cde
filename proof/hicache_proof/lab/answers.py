"""Does the answer after the read say what the L1 run of the same prompt said? Pure.

Text alone does not tell: an L1 hit too can change a greedy answer, because batch shapes change the arithmetic. So the
log-probabilities are compared, and the tolerance is learned where no read took place: from what an L1 run differs from
the cold run of the same prompt (B to A), and from another L1 run.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hicache_proof.evidence import Answer
from hicache_proof.lab.reply import Reply
from hicache_proof.witnesses.answer import TOO_WIDE

FACTOR = 4.0
"""How much more than two runs without a read differ is still the same answer."""
FLOOR = 0.01
"""Two L1 runs often agree to the last bit; a hundredth is far below what damaged rows do (over 1 on a small model)."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All repetitions of one series against another one's answers to the same prompts."""

    name: str
    compared: int
    missing: int
    """Pairs of which one answer came without log-probabilities."""
    failures: int
    same_tokens: int
    largest: float | None
    """Largest difference of log-probability; None if nothing was compared."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the model answered to the question for one marker; None: not asked then, or it gave no text."""

    depth: float
    code: str
    cold: str | None
    """While the prefix was computed: only the first one can be asked for then."""
    before: str | None
    """Right after that, from L1."""
    after: str | None
    """After the eviction: the first one read the prefix from L2, the others use what it brought."""


class Markers(msgspec.Struct, frozen=True, kw_only=True):
    """``followed``: recalled before the eviction, so that losing one after it means something."""

    planted: int
    followed: int
    recalled: int
    says: str
    told: tuple[Told, ...] = ()


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """Speculative decoding: accepted tokens a step, median of the series."""

    before: float
    """Series B, from L1."""
    after: float
    """Series C, from L2."""


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    tolerance: float
    comparisons: tuple[Comparison, ...]
    markers: Markers
    acceptance: Acceptance | None
    """None: no speculative decoding, or the engine does not tell."""

    @property
    def too_wide(self) -> bool:
        return self.tolerance > TOO_WIDE


NOT_COMPARED = Answers(
    tolerance=FLOOR,
    comparisons=(),
    markers=Markers(planted=0, followed=0, recalled=0, says="not told"),
    acceptance=None,
)
"""Of a report that an earlier release wrote."""


def tolerance(pairs: Sequence[tuple[Reply, Reply]]) -> float:
    """From pairs of answers to one prompt, neither of which followed a read of L2."""
    return max([FLOOR, *(FACTOR * difference(one, other) for one, other in pairs)])


def compare(reference: Reply, reply: Reply, tolerance: float) -> Answer | None:
    """None if one of the two came without log-probabilities: then there is nothing to hold against the tolerance."""
    if not reference.logprobs or not reply.logprobs:
        return None
    return Answer(
        same_tokens=reference.output_ids == reply.output_ids,
        max_logprob_delta=difference(reference, reply),
        tolerance=tolerance,
    )


def summarise(name: str, pairs: Sequence[tuple[Reply, Reply]], tolerance: float) -> Comparison:
    """``pairs``: each the answer that is held against, and the answer that is looked at."""
    found = [answer for one, other in pairs if (answer := compare(one, other, tolerance)) is not None]
    return Comparison(
        name=name,
        compared=len(found),
        missing=len(pairs) - len(found),
        failures=sum(not answer.max_logprob_delta <= answer.tolerance for answer in found),
        same_tokens=sum(answer.same_tokens for answer in found),
        largest=max((answer.max_logprob_delta for answer in found), default=None),
    )


def difference(one: Reply, other: Reply) -> float:
    """Largest difference of log-probability, up to and with the first token that differs (after it, contexts do)."""
    largest = 0.0
    for token, other_token, logprob, other_logprob in zip(
        one.output_ids, other.output_ids, one.logprobs, other.logprobs, strict=False
    ):
        largest = max(largest, abs(logprob - other_logprob))
        if token != other_token:
            break
    return largest

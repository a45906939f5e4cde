"""Does the answer after the L2 read say what the L1 run of the same prompt said? Pure.

Text alone does not tell: an L1 hit too can change a greedy answer, because batch shapes change the arithmetic. So the
log-probabilities are compared, and the tolerance is learned from two L1 runs of the same prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

from hicache_proof.evidence import Answer
from hicache_proof.lab.reply import Reply

FACTOR = 4.0
"""How much more than two L1 runs differ is still the same answer."""
FLOOR = 0.01
"""Two L1 runs often agree to the last bit; a hundredth is far below what damaged rows do (over 1 on a small model)."""


def tolerance(pairs: Sequence[tuple[Reply, Reply]]) -> float:
    """From pairs of L1 runs of the same prompt."""
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

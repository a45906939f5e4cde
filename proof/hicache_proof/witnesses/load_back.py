"""The engine's answer when it was asked to load the promised tokens: how many it queued, or why none."""

from __future__ import annotations

from hicache_proof.evidence import Evidence, LoadBack
from hicache_proof.witnesses.lookup import retried
from hicache_proof.witnesses.state import WitnessState, absent, contradicts, silent, supports

NAME = "load_back"


def testify(evidence: Evidence) -> WitnessState:
    answer = evidence.load_back
    if answer is None:
        return absent(NAME, "the engine was not seen asked for a load-back")
    if answer.loaded_tokens > 0:
        made_room = f", after evicting {answer.evicted_tokens} from L1" if answer.evicted_tokens else ""
        return supports(NAME, f"loaded {_amount(answer)}{made_room}")
    if retried(evidence):
        return silent(NAME, f"the last attempt loaded nothing ({reason(answer)}); an earlier one may have")
    return contradicts(NAME, f"declined {answer.promised_tokens} promised tokens: {reason(answer)}")


def _amount(answer: LoadBack) -> str:
    more = answer.loaded_tokens - answer.promised_tokens
    if more > 0:  # making room can push out the very tokens that the lookup had found in L1
        return f"the {answer.promised_tokens} promised tokens and {more} more, which had left L1 since the lookup"
    return f"{answer.loaded_tokens} of {answer.promised_tokens} promised tokens"


def reason(answer: LoadBack) -> str:
    """Why nothing was loaded, in words, with the limit that decided where the engine gave it."""
    if answer.outcome == "below_threshold" and answer.threshold is not None:
        return f"below the load-back threshold of {answer.threshold} tokens"
    if answer.outcome == "over_quota" and answer.quota is not None:
        return f"over the memory quota of {answer.quota} tokens"
    return _REASONS.get(answer.outcome, f"outcome {answer.outcome!r}")


_REASONS = {
    "below_threshold": "below the load-back threshold",
    "over_quota": "over the memory quota of this prefill",
    "no_room": "no room in L1, even after evicting",
    "buffer_mode": "host memory is only a staging buffer in this mode",
    "nothing": "nothing was promised",
    "loaded": "state of another kind was loaded, and no KV",
    "unknown": "the engine did not say why",
}

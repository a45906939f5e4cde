"""One answer of /generate as it came: what the engine said, and when on the client's clock. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from hicache_proof.evidence import Attribution

Split = Literal["given", "null", "absent"]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """Times are nanoseconds of CLOCK_MONOTONIC on the client's machine."""

    request_id: str
    prompt_tokens: int | None
    cached_tokens: int | None
    split: Split
    """``cached_tokens_details``: given, null, or not in the answer at all. Null and absent are not zero."""
    device_tokens: int | None
    host_tokens: int | None
    storage_tokens: int | None
    output_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    sent_ns: int
    first_token_ns: int
    done_ns: int
    text: str | None = None
    """None: an engine without a tokenizer."""
    accepted_tokens: float | None = None
    """Accepted tokens a step of speculative decoding; None without it."""
    dp_rank: int | None = None
    """The data-parallel replica that served it, where the engine tells."""

    @property
    def ttft_seconds(self) -> float:
        return (self.first_token_ns - self.sent_ns) / 1e9

    @property
    def seconds(self) -> float:
        """From sending until the last token."""
        return (self.done_ns - self.sent_ns) / 1e9

    @property
    def attribution(self) -> Attribution:
        return Attribution(
            device_tokens=self.device_tokens,
            host_tokens=self.host_tokens,
            storage_tokens=self.storage_tokens,
            cached_tokens=self.cached_tokens,
            source="reply",
        )


def parse(request_id: str, answer: Mapping[str, Any], *, sent_ns: int, first_token_ns: int, done_ns: int) -> Reply:
    """From the last event of the stream, which holds the whole answer. Raises ValueError for another's."""
    try:
        found = _found(request_id, answer, sent_ns=sent_ns, first_token_ns=first_token_ns, done_ns=done_ns)
        return msgspec.convert(msgspec.structs.asdict(found), Reply)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def _found(request_id: str, answer: Mapping[str, Any], *, sent_ns: int, first_token_ns: int, done_ns: int) -> Reply:
    """With fields of whatever types they have there."""
    meta = answer["meta_info"]
    details = meta.get("cached_tokens_details")
    split: Split = "given" if details else "null" if "cached_tokens_details" in meta else "absent"
    details = details or {}
    chosen = meta.get("output_token_logprobs") or ()
    # NaN comes as null: an answer whose log-probabilities can't be compared has none
    given = all(logprob is not None for logprob, *_ in chosen)
    return Reply(
        request_id=request_id,
        prompt_tokens=meta.get("prompt_tokens"),
        cached_tokens=meta.get("cached_tokens"),
        split=split,
        device_tokens=details.get("device"),
        host_tokens=details.get("host"),
        storage_tokens=details.get("storage"),
        output_ids=tuple(answer.get("output_ids") or (token for _, token, *_ in chosen)),
        logprobs=tuple(logprob for logprob, *_ in chosen) if given else (),
        sent_ns=sent_ns,
        first_token_ns=first_token_ns,
        done_ns=done_ns,
        text=answer.get("text"),
        accepted_tokens=meta.get("spec_accept_length"),
        dp_rank=meta.get("dp_rank"),
    )

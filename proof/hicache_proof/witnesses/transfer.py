"""The copy itself: host-to-device transfers that carried blocks of this request."""

from __future__ import annotations

from hicache_proof.amounts import counted_transfers
from hicache_proof.evidence import Evidence, Transfer
from hicache_proof.witnesses.state import WitnessState, absent, contradicts, silent, supports

NAME = "transfer"


def testify(evidence: Evidence) -> WitnessState:
    transfers = counted_transfers(evidence)
    if transfers is None:
        return absent(NAME, "transfers are not observable here")
    carrying = [t for t in transfers if t.request_tokens > 0]
    if not carrying:
        return contradicts(NAME, "no host-to-device transfer carried blocks of this request")
    tokens = sum(t.request_tokens for t in carrying)
    says = f"{tokens} tokens host to device in {len(carrying)} transfer(s){_shared(carrying)}{_seconds(carrying)}"
    if any(t.finished is False for t in carrying):
        return silent(NAME, f"{says}; dropped by a reset before it was seen finished")
    if any(t.finished is None for t in carrying):
        return silent(NAME, f"{says}; not seen finished yet")
    return supports(NAME, f"{says}, finished")


def _shared(transfers: list[Transfer]) -> str:
    others = max(t.requests for t in transfers) - 1
    return f", shared with {others} other request(s)" if others > 0 else ""


def _seconds(transfers: list[Transfer]) -> str:
    if any(t.device_seconds is None for t in transfers):
        return ""
    return f", {1000 * sum(t.device_seconds or 0.0 for t in transfers):.2f} ms on the device clock"

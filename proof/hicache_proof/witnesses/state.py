"""What one witness says about the claim "this request read L2"."""

from __future__ import annotations

from typing import Literal

import msgspec

Stance = Literal["supports", "contradicts", "silent", "absent"]


class WitnessState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``supports``/``contradicts`` the claim; ``silent``: there, but can't tell; ``absent``: not there."""

    name: str
    stance: Stance
    says: str


def absent(name: str, why: str) -> WitnessState:
    return WitnessState(name=name, stance="absent", says=why)


def silent(name: str, says: str) -> WitnessState:
    return WitnessState(name=name, stance="silent", says=says)


def supports(name: str, says: str) -> WitnessState:
    return WitnessState(name=name, stance="supports", says=says)


def contradicts(name: str, says: str) -> WitnessState:
    return WitnessState(name=name, stance="contradicts", says=says)

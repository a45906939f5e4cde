from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded series, named ``hicache:<what>:<over what>``.

    Windows have roles in the name, not lengths, so that variants keep it; only the burn windows carry their length.
    """

    record: str
    expr: str

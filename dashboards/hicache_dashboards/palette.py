"""One colour for one meaning on every board, in the hues of Okabe and Ito, which colour-blind people can tell apart."""

from __future__ import annotations

from hicache_exporter import names

GREEN, BLUE, ORANGE, PURPLE = "#009E73", "#0072B2", "#E69F00", "#CC79A7"
RED, SKY, YELLOW, GREY = "#D55E00", "#56B4E9", "#F0E442", "#999999"

GOOD, WARN, BAD, NEUTRAL = SKY, YELLOW, RED, GREY

TIERS = {
    "device": GREEN,
    "host": BLUE,
    "storage": ORANGE,
    "mixed": PURPLE,
    "none": GREY,
    "computed": GREY,
    "unattributed": RED,
}
DIRECTIONS = {"host_to_device": BLUE, "device_to_host": GREEN}
CAUSES = {"demoted": BLUE, "dropped": RED, "host_evicted": ORANGE}
VERDICTS = {
    "corroborated": GREEN,
    "proven": SKY,
    "consistent": YELLOW,
    "contradicted": RED,
    "not_observed": PURPLE,
    "no_read": GREY,
}
CONTENT = {"intact": SKY, "damaged": RED, "not_checked": GREY, "matched": SKY, "mismatched": RED, "unseen": GREY}

STATES = {
    "attached": SKY,
    "tripped": RED,
    "unrecognised": YELLOW,
    "missing": GREY,
    "pending": GREY,
    "followed": SKY,
    "waiting": YELLOW,
    "ended": GREY,
    "other_engine": GREY,
}

BY_LABEL = {
    "tier": TIERS,
    "direction": DIRECTIONS,
    "cause": CAUSES,
    "verdict": VERDICTS,
    "content": CONTENT,
    "state": CONTENT | STATES,
}
"""Label to the colours of its values."""

BY_LEGEND = {
    "computed": GREY,
    "unattributed": RED,
    "backed up to L2": GREEN,
    "loaded back from L2": BLUE,
    "left L1": RED,
    "left L2": ORANGE,
}
"""Fixed legends that mean the same everywhere."""


def missing() -> set[str]:
    """Values that the families may have and no colour speaks for."""
    known = {*names.ALL_TIERS, *names.SERVING, *names.DIRECTIONS, *names.CAUSES, *names.VERDICTS, *names.CONTENT_STATES}
    return known - {value for values in BY_LABEL.values() for value in values}

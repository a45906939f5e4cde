"""Every rule that can decide a verdict, by id, with the sentence that the reports print."""

from __future__ import annotations

RULES: dict[str, str] = {
    # the window is void
    "records-lost": "Records were lost, so what was not seen proves nothing.",
    "engine-restarted": "The engine restarted inside the window: two processes can't share one proof.",
    "weights-changed": "The weights were updated inside the window: blocks of two models can't be compared.",
    "reset-in-window": "The cache was flushed inside the window, which voids what was known of residency.",
    # two witnesses disagree
    "claimed-not-moved": "Claimed, not seen moving: more host tokens are attributed than were seen leaving the host.",
    "credited-not-loaded": "More host tokens are attributed than the load-back answered to have loaded.",
    "credited-not-promised": "More host tokens are attributed than the lookup promised.",
    "attributed-elsewhere": "Loaded, attributed elsewhere: blocks came from the host and are counted as device tokens.",
    "loaded-not-used": "Blocks were loaded from the host for this request and are in no account of its cached tokens.",
    "computed-as-well": "Cached and computed tokens together exceed the prompt, so some are counted twice.",
    "moved-without-promise": "Blocks moved although the only lookup promised none from L2.",
    "load-back-not-moved": "The load-back answered that it loaded more than was seen moving.",
    "moved-after-decline": "Blocks moved although the only load-back asked for was declined.",
    "never-left": "The blocks were read from the host although they were never seen leaving L1.",
    "storage-not-by-origin": "L3 is credited with tokens whose host slots a known backup from the device wrote.",
    "accounts-differ": "The scheduler's account of cached tokens and the reply's differ.",
    "counters-differ": "The engine's counters moved by another amount than the request's own records.",
    "bytes-missing": "Fewer bytes crossed the bus than the transfers claim.",
    "control-reads-too": "The control, where no L2 read can happen, shows one.",
    "ranks-differ": "Two ranks that serve the same request tell different stories.",
    # the read took place
    "all-agree-outside-too": "All five witnesses agree, and one from outside the engine's accounts confirms it.",
    "all-agree": "Lookup, residency, provenance, transfer and attribution agree, nothing contradicts, nothing is lost.",
    "some-say-read": "What is there is compatible with an L2 read, but not all five witnesses speak for it.",
    # it did not
    "declined": "L2 held the prefix, the load-back was declined, nothing moved.",
    "nothing-promised": "The recorder watched, the lookup found nothing in L2, nothing moved.",
    "nothing-loaded": "L2 held the prefix and nothing moved; why is not observable here.",
    "origin-unknown": "The blocks came out of host memory and are credited to L3; whether L2 held them is not known.",
    "storage-through-host": "The blocks came from L3 and only passed through host memory.",
    # nobody knows
    "open": "A transfer was queued and not seen finished, and nothing else tells of a read.",
    "promise-only": "There is only a promise; a promise is not a load.",
    "nothing-known": "No evidence either way.",
}

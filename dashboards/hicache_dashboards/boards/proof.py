from __future__ import annotations

from hicache_dashboards.boards import traces
from hicache_dashboards.boards.model import Board, Panel, Row, Step
from hicache_dashboards.boards.steps import BELOW, UP_DOWN, UP_DOWN_STEPS, enough, none_is_good
from hicache_dashboards.config import Settings
from hicache_dashboards.palette import BAD, GOOD, WARN
from hicache_dashboards.queries import proof


def board(settings: Settings) -> Board:
    return Board(
        "hicache-proof",
        "HiCache: proof",
        "What the witnesses say about the requests that claim to have read L2, and whether they can be relied on.",
        (_verdicts(), _content(), _recorder(), _seams(), _spans()),
    )


def _verdicts() -> Row:
    return Row(
        "Verdicts",
        (
            Panel(
                "L2 reads proven",
                "Of the requests that claim L2, those that are proven or corroborated.",
                "percentunit",
                (proof.PROVEN_SHARE,),
                kind="stat",
                span=4,
                steps=enough(0.95, "some witness is silent"),
            ),
            Panel(
                "Contradicted",
                "Two witnesses disagree; the verdict of each request names them.",
                "none",
                (proof.CONTRADICTED,),
                kind="stat",
                span=4,
                steps=none_is_good("open one on the sidecar's page"),
                traced=traces.CONTRADICTED,
                alerts=("HiCacheVerdictsContradicted",),
            ),
            Panel(
                "Not observed",
                "Of all judged requests, those that the recorder did not fully see.",
                "percentunit",
                (proof.NOT_OBSERVED,),
                kind="stat",
                span=4,
                steps=(Step(BELOW, GOOD, "nearly all seen"), Step(0.05, WARN, "look at lost records and seams")),
                alerts=("HiCacheRecordsLost",),
            ),
            Panel(
                "Verdicts over time",
                "no_read: watched in full, and L2 was not read.",
                "reqps",
                (proof.VERDICTS,),
                kind="stack",
                span=8,
                traced=traces.hit("host"),
            ),
            Panel("Verdicts in the time range", "Requests.", "short", (proof.VERDICTS_COUNT,), kind="bars", span=4),
        ),
    )


def _content() -> Row:
    return Row(
        "Content",
        (
            Panel(
                "Damaged",
                "Requests whose loaded pages differ from what was backed up.",
                "none",
                (proof.DAMAGED,),
                kind="stat",
                span=4,
                steps=none_is_good("answers may be wrong"),
                alerts=("HiCacheContentDamaged",),
                traced=traces.DAMAGED,
            ),
            Panel(
                "Content checks",
                "Requests with an L2 read. not_checked: the content witness is off or did not see the backup.",
                "reqps",
                (proof.CONTENT,),
                kind="stack",
                span=10,
            ),
            Panel(
                "Tokens compared", "With their signatures.", "si:tok/s", (proof.CONTENT_TOKENS,), kind="stack", span=10
            ),
        ),
    )


def _recorder() -> Row:
    return Row(
        "Flight recorder",
        (
            Panel(
                "Recorders",
                "One for each scheduler process.",
                "none",
                (proof.RECORDER_UP,),
                kind="states",
                span=8,
                states=UP_DOWN,
                steps=UP_DOWN_STEPS,
                alerts=("HiCacheRecorderDown",),
            ),
            Panel("Records", "Read from the rings.", "si:/s", (proof.RECORDS,), span=8),
            Panel(
                "Records lost",
                "Nothing that a lost record told can be proven.",
                "none",
                (proof.RECORDS_LOST,),
                span=8,
                steps=none_is_good("verdicts fall to not_observed"),
                alerts=("HiCacheRecordsLost",),
            ),
            Panel(
                "Unread share of the ring",
                "At the last read. At 1 the writer overtakes the reader.",
                "percentunit",
                (proof.RECORDER_FILL,),
                span=8,
                maximum=1,
                steps=(Step(0.5, WARN, "the sidecar falls behind"), Step(0.9, BAD, "about to lose records")),
                alerts=("HiCacheRecordsLost",),
            ),
            Panel("Rings", "What the sidecar does with each.", "none", (proof.RINGS,), kind="bars", span=4),
            Panel(
                "Rings refused",
                "Files that are not read.",
                "none",
                (proof.RINGS_REFUSED,),
                kind="bars",
                span=4,
                steps=none_is_good("see the reason"),
                alerts=("HiCacheRingRefused",),
            ),
            Panel(
                "Forgotten by the ledger",
                "To stay within its bounds. What is forgotten can't be proven later.",
                "si:/s",
                (proof.FORGOTTEN,),
                span=8,
            ),
        ),
    )


def _seams() -> Row:
    return Row(
        "Seams",
        (
            Panel(
                "Seams by state",
                "attached: in place; tripped: switched itself off; unrecognised: the engine's function is not the known"
                " one; missing: this engine has no such function; pending: not imported yet.",
                "none",
                (proof.SEAM_STATES,),
                span=8,
                height=12,
                alerts=("HiCacheSeamSwitchedOff", "HiCacheSeamUnrecognised"),
            ),
            Panel("State of each seam", "On how many ranks.", "none", (proof.SEAMS,), kind="bars", span=8, height=12),
            Panel(
                "Attached and never fired",
                "Normal before the first traffic, and for what this engine does not use.",
                "none",
                (proof.SEAMS_SILENT,),
                kind="bars",
                span=4,
                height=12,
            ),
            Panel(
                "Faults of ours",
                "Swallowed in the seam; the engine's answer is untouched.",
                "none",
                (proof.SEAM_FAULTS,),
                span=4,
                height=12,
                steps=none_is_good("a seam trips after several"),
                alerts=("HiCacheSeamSwitchedOff",),
            ),
        ),
    )


def _spans() -> Row:
    return Row(
        "Spans",
        (
            Panel(
                "Spans by what became of them",
                "dropped: the queue was full; failed: the collector refused.",
                "si:/s",
                (proof.SPANS,),
                span=16,
                alerts=("HiCacheSpansLost",),
            ),
            Panel("Export", "off: no endpoint was given.", "none", (proof.SPAN_EXPORT,), kind="bars", span=8),
        ),
    )

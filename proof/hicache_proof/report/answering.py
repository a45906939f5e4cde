"""What is said of the answers, shared by all reports. Pure."""

from __future__ import annotations

from hicache_proof.lab.answers import Comparison
from hicache_proof.lab.markers import recalled
from hicache_proof.lab.run import LabRun

MEANINGS = {
    "B to A": "an L1 run against the cold run of the same prompt: the tolerance is learned from it",
    "B to B": "two L1 runs of one prompt: the tolerance is learned from them too",
    "C to B": "the read from L2 against the L1 run",
    "D to B": "the L1 hit after it",
    "E to B": "the read from L3 against the L1 run",
}


def sentences(run: LabRun) -> tuple[str, ...]:
    said = [f"answers {found.name}: {outcome(found)}" for found in run.answers.comparisons if found.name != "D to B"]
    said.append(f"markers: {run.answers.markers.says}")
    said.extend(quoting(run))
    if run.answers.acceptance is not None:
        said.append(acceptance(run))
    if run.answers.too_wide:
        said.append(wide(run))
    return tuple(said)


def outcome(found: Comparison) -> str:
    if found.largest is None:
        return f"not compared: {found.missing} without log-probabilities"
    missing = f", {found.missing} without log-probabilities" if found.missing else ""
    return (
        f"{found.failures} of {found.compared} failed, largest difference of log-probability {found.largest:.2g}, "
        f"same tokens in {found.same_tokens} of {found.compared}{missing}"
    )


def quoting(run: LabRun) -> tuple[str, ...]:
    """Of the sentences those that hold what the model said."""
    return tuple(f"marker {line}" for line in told(run))


def told(run: LabRun) -> tuple[str, ...]:
    """The answers for each marker that the model has recalled at all."""
    return tuple(
        f"{one.code} at {one.depth:.0%}: "
        + ", ".join(
            f"{when} {shown(text)}"
            for when, text in (("computed", one.cold), ("L1", one.before), ("after the eviction", one.after))
            if text is not None
        )
        for one in run.answers.markers.told
        if recalled(one.before, one.code)
    )


def shown(text: str) -> str:
    """An answer in quotes, on one line."""
    return f'"{" ".join(text.split())}"'


def acceptance(run: LabRun) -> str:
    found = run.answers.acceptance
    if found is None:
        return "no speculative decoding, or the engine does not tell"
    return f"speculative decoding accepts {found.before:.2f} tokens a step before (B) and {found.after:.2f} after (C)"


def wide(run: LabRun) -> str:
    return (
        f"the tolerance is {run.answers.tolerance:.2g}: runs without a read differ so much that this comparison would "
        "let damage through"
    )

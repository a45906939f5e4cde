"""Engine and sidecar are killed at any moment: no record lost or counted twice, no counter falls, no verdict lies."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .fake_engine import FakeEngine, RealSidecar

RATE = 2000.0
FALLS = ("_total", "_count", "_bucket", "_sum")
VERDICTS = "hicache_verdicts_total{verdict="


class Battle:
    """One engine and one sidecar at a time, which are killed in turn; what was written is known from the accounts."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self._folder, self._started = folder, 0
        self._rings = folder / "rings"
        self._rings.mkdir(mode=0o700)
        self._dead = (0, 0)
        """Records and admissions of the engines that were killed."""
        self.kills = 0
        """Of the engine, in the life of this sidecar: each may have written one record that no account tells of."""
        self._counted_from = ((0, 0), (0, 0))
        """What was written when the sidecar was started, and when it was ready."""
        self._seen: dict[str, float] = {}
        self.engine = self._new_engine()
        self.sidecar = self._new_sidecar()

    def _new_engine(self) -> FakeEngine:
        self._started += 1
        return FakeEngine(self._rings, self._folder / f"account-{self._started}", RATE)

    def _new_sidecar(self) -> RealSidecar:
        before, self._seen, self.kills = self.written(), {}, 0
        sidecar = RealSidecar(self._rings, self._folder / "sidecar.log")
        self._counted_from = before, self.written()
        return sidecar

    def written(self) -> tuple[int, int]:
        account = self.engine.written
        return self._dead[0] + account.records, self._dead[1] + account.admitted

    def kill_engine(self) -> None:
        self.engine.kill()
        self._dead = self.written()
        self.kills += 1
        self.engine = self._new_engine()

    def kill_sidecar(self) -> None:
        self.sidecar.kill()
        self.sidecar = self._new_sidecar()

    def wait(self) -> None:
        time.sleep(self.chance.uniform(0, 0.4))

    def check(self) -> None:
        """Everything that was written since this sidecar began is on its page, once."""
        self._wait_until_followed()
        self.engine.pause()
        time.sleep(0.3)
        written, (earliest, latest) = self.written(), self._counted_from
        deadline = time.monotonic() + 10  # on a busy machine the sidecar may lag
        while (records := counted(series := self._look())) < written[0] - latest[0] and time.monotonic() < deadline:
            time.sleep(0.3)
        assert written[0] - latest[0] <= records <= written[0] - earliest[0] + self.kills + 1
        admitted = sum(value for name, value in series.items() if name.startswith("hicache_requests_total"))
        assert written[1] - latest[1] <= admitted <= written[1] - earliest[1] + self.kills + 1
        self._check_verdicts(series, admitted)
        self.engine.go_on()

    def _wait_until_followed(self) -> None:
        """A ring that is met while it is being made is looked at again a second later."""
        deadline = time.monotonic() + 20
        while self._look().get("hicache_recorder_up{rank=tp0}") != 1:
            assert time.monotonic() < deadline, "the engine's recorder is not followed"
            time.sleep(0.05)

    def _look(self) -> dict[str, float]:
        """The page, held against what it was before."""
        series = self.sidecar.series()
        fell = {
            name: (self._seen[name], value)
            for name, value in series.items()
            if name.partition("{")[0].endswith(FALLS) and value < self._seen.get(name, 0)
        }
        assert fell == {}
        self._seen |= series
        lost = {name: value for name, value in series.items() if "recorder_lost_records" in name and value}
        assert lost == {}
        return series

    def _check_verdicts(self, series: dict[str, float], admitted: float) -> None:
        verdicts = {name[len(VERDICTS) : -1]: value for name, value in series.items() if name.startswith(VERDICTS)}
        assert {name for name, count in verdicts.items() if count} <= {"proven", "no_read", "not_observed"}
        assert admitted - 1 <= sum(verdicts.values()) <= admitted, "the engine stands still: one may be under way"
        for proof in self.sidecar.get("/proofs?limit=512").json()["proofs"]:
            right = "no_read" if proof["request_id"].endswith("cold") else "proven"
            assert proof["verdict"] in {right, "not_observed", *under_way(proof)}, proof

    def forge(self, records: int) -> None:
        """Claim that more was written than there was: what a lost record looks like from here."""
        start = self._counted_from[1][0]
        self._dead = self._dead[0] + records + start - self._counted_from[0][0] + self.kills + 1, self._dead[1]

    def end(self) -> None:
        self.engine.kill()
        self.sidecar.kill()


def counted(series: dict[str, float]) -> float:
    """Records that the sidecar has read."""
    return sum(value for name, value in series.items() if name.startswith("hicache_recorder_records_total"))


def under_way(proof: dict[str, object]) -> set[str]:
    """Without its first token a request's verdict is not its last."""
    return {"consistent"} if proof["ttft_seconds"] is None else set()


pytestmark = pytest.mark.stack


@pytest.fixture
def battle(tmp_path: Path) -> Callable[[int], Battle]:
    battles: list[Battle] = []

    def start(seed: int) -> Battle:
        battles.append(Battle(tmp_path, seed))
        return battles[0]

    yield start
    for battle in battles:
        battle.end()


@pytest.mark.parametrize(
    "rounds", [6, pytest.param(200, marks=[pytest.mark.chaos, pytest.mark.timeout(1200)])], ids=["short", "long"]
)
def test_kills_at_any_moment(battle: Callable[[int], Battle], rounds: int) -> None:
    fight = battle(11)
    for number in range(rounds):
        fight.wait()
        fight.check() if number % 2 else fight.wait()
        if fight.chance.random() < 0.6:
            fight.kill_engine()
        else:
            fight.kill_sidecar()
    fight.wait()
    fight.check()
    fight.forge(records=5)
    with pytest.raises(AssertionError):
        fight.check()

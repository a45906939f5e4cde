"""Two ranks on two GPUs through the whole sidecar: its ring folder, its probe process, its verdict."""

import asyncio
import time

import pytest

from hicache_exporter import app
from hicache_exporter.config import Settings
from hicache_tracing.records import Direction

from ..scribe import IDENTITY, RingFile

TOKENS = 20_000
CLAIMED = TOKENS * 512
CROSSED = CLAIMED * 116 // 100
"""With the protocol's overhead."""


class Rank(RingFile):
    """A rank's ring, written in real time."""

    def __init__(self, rings, rank):
        facts = {"tp_size": 2, "tp_rank": rank, "gpu_uuid": f"GPU-{'ab'[rank]}"}
        super().__init__(rings, identity={**IDENTITY, **facts}, pid=1000 + rank)

    def write(self, *record, **fields):
        self.now_ns = time.monotonic_ns()
        return super().write(*record, **fields)

    def begin(self):
        """Up to the moment at which the bytes move."""
        self.cold_request("a", TOKENS + 1, node=7)
        self.demote(7, TOKENS + 1)
        self.lookup("c", TOKENS + 1, host=TOKENS, node=7)
        self.load("c", 9, [(0, TOKENS)], node=7)
        self.load_back("c", TOKENS, TOKENS, node=7)
        self.admit("c", TOKENS + 1, host=TOKENS)
        self.transfer(100, Direction.HOST_TO_DEVICE, [(7, 9)], TOKENS)

    def end(self):
        self.first_token("c", TOKENS + 1)
        self.transfer_done(100, Direction.HOST_TO_DEVICE, TOKENS)
        self.finish("c", TOKENS + 1)


@pytest.fixture
def prove(bench, monkeypatch):
    """What the sidecar says of a load-back in which so many bytes crossed the bus of each GPU."""
    bench.rings.chmod(0o700)
    for gpu in bench.world["gpus"]:
        gpu["lanes"] = 1  # a counter that takes a second to wrap: a probe that waits for its turn is still exact
    bench.apply()
    monkeypatch.setattr(app, "GpuProbe", lambda rings: bench.probe)

    async def read(*crossed):
        sidecar = app.App(Settings(ring_folder=str(bench.rings), off=frozenset(("host",))), lives=lambda *_: True)
        await sidecar.start()
        try:
            ranks = [Rank(bench.rings, number) for number in range(2)]
            await asyncio.to_thread(bench.wait_devices, a="present", b="present")
            await asyncio.sleep(0.3)  # the quiet rate needs a history
            for rank in ranks:
                rank.begin()
            for gpu, moved in zip(bench.world["gpus"], crossed, strict=True):
                gpu["rx_moved"] = moved
            bench.apply()
            await asyncio.sleep(0.1)
            for rank in ranks:
                rank.end()
            return await final(sidecar)
        finally:
            await sidecar.stop()

    return read


async def final(sidecar):
    for _ in range(50):
        proof = sidecar.judging.of("c")
        if proof is not None and proof.final:
            return proof
        await sidecar.news(0.2)
    raise AssertionError("no final verdict within ten seconds")


def ratios(evidence):
    found = {evidence.rank: evidence.physical, **{view.rank: view.physical for view in evidence.ranks}}
    assert all(seen.usable for seen in found.values()), found
    return {rank: (seen.bus_bytes - seen.baseline_bytes) / seen.claimed_bytes for rank, seen in found.items()}


def of_the_bus(proof):
    (state,) = [state for state in proof.judgement.witnesses if state.name == "physical"]
    return state


async def test_the_bus_of_each_gpu_confirms_the_bytes_of_its_rank(prove):
    proof = await prove(CROSSED, CLAIMED * 108 // 100)
    assert ratios(proof.evidence) == pytest.approx({"tp0": 1.16, "tp1": 1.08}, abs=0.01)
    assert proof.judgement.verdict == "corroborated", proof.judgement.reasons
    assert of_the_bus(proof).says.endswith("(ratio 1.16); on every rank: tp1 ratio 1.08")


async def test_a_sibling_half_of_whose_bytes_did_not_cross_its_bus_contradicts_and_is_named(prove):
    proof = await prove(CROSSED, CROSSED // 2)
    assert ratios(proof.evidence) == pytest.approx({"tp0": 1.16, "tp1": 0.58}, abs=0.01)
    assert (proof.judgement.verdict, proof.judgement.rule) == ("contradicted", "bytes-missing")
    assert of_the_bus(proof).stance == "contradicts"
    assert of_the_bus(proof).says.startswith("rank tp1: ")

"""Whatever an engine does, in whatever order: it does the same with us, and what we recorded holds together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hicache_tracing.records import Direction, EvictCause, Kind, unpack_pairs, unpack_runs

from .engines import Engine, importable, launch
from .engines import engine as running
from .ring import Ring
from .workload import reply

# few and overlapping prompts, so that prefixes are hit; small tiers, so that they overflow
families, lengths = st.integers(0, 1), st.sampled_from([5, 20, 40, 60])
prompts = st.builds(lambda family, length: list(range(1000 * family, 1000 * family + length)), families, lengths)
tokens = st.sampled_from([1, 30, 1000])
actions = st.one_of(
    st.tuples(st.just("serve"), prompts),
    st.tuples(st.just("serve"), prompts),
    st.tuples(st.just("receive"), prompts, st.integers(1, 4)),
    st.tuples(st.just("step")),
    st.tuples(st.just("finish copies")),
    st.tuples(st.just("evict"), tokens),
    st.tuples(st.just("evict"), tokens),
    st.tuples(st.just("evict host"), tokens),
    st.tuples(st.just("retract")),
    st.tuples(st.just("abort")),
    st.tuples(st.just("reset")),
    st.tuples(st.just("chunk"), st.sampled_from([None, 7, 30])),
    st.tuples(st.just("write policy"), st.booleans()),
)


def perform(engine: Engine, script: list[tuple[Any, ...]]) -> list[Any]:
    scheduler, tree, requests, seen = engine.scheduler, engine.tree, [], []
    pools = tree.cache_controller.mem_pool_device, tree.cache_controller.mem_pool_host
    for action, *details in script:
        if action == "receive":
            requests.append(scheduler.receive(f"request {len(requests)}", *details))
        elif action == "serve":
            requests.append(scheduler.receive(f"request {len(requests)}", *details))
            engine.steps(3)
            engine.settle()
        elif action == "step":
            scheduler.step()
        elif action == "finish copies":
            scheduler.finish_copies()
        elif action == "evict":
            seen.append(scheduler.evict(*details))
        elif action == "evict host":
            seen.append(tree.evict_host(*details))
        elif action in ("retract", "abort") and scheduler.running:
            getattr(scheduler, action)(scheduler.running[0])
        elif action == "reset" and not scheduler.running and scheduler.chunked is None:
            seen.append(tree.reset())
        elif action == "chunk" and scheduler.chunked is None:
            scheduler.chunk = details[0]
        elif action == "write policy":
            tree.check_hicache_events()
            scheduler.finish_copies()
            tree.check_hicache_events()
            tree.cache_controller.write_policy = ("write_through", "write_back")[details[0]]
            tree.is_write_back = details[0]
        seen.append([list(pool.free_slots) for pool in pools])
    return [*seen, [reply(req) for req in requests]]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(script=st.lists(actions, min_size=15, max_size=60))
def test_the_engine_does_the_same_and_the_records_hold_together(release, tmp_path_factory, script):
    tiers = {"device_tokens": 150, "host_tokens": 250}
    with importable(release):
        expected = perform(launch(release, None, **tiers), script)
    with running(release, Path(tmp_path_factory.mktemp("ring")), **tiers) as engine:
        assert perform(engine, script) == expected
        ring = engine.ring()
        assert [seam.name for seam in engine.session.seams if seam.faults] == []
    assert (ring.dropped, ring.torn) == (0, [])
    for kind in (Kind.ADMIT, Kind.FIRST_TOKEN, Kind.FINISH):
        counts = Counter(record.rid for record in ring.of(kind))
        assert not counts or max(counts.values()) == 1, f"{kind.name} counted twice"
    answered = {record.rid for record in ring.of(Kind.FINISH) if record.named()["output_tokens"]}
    assert answered <= {record.rid for record in ring.of(Kind.FIRST_TOKEN)}
    transfers_hold_together(ring)
    evictions_keep_what_backups_wrote(ring)
    loads_read_what_backups_wrote(ring)


def transfers_hold_together(ring: Ring) -> None:
    """Each operation is in at most one transfer, each transfer has at most one end, and sums are sums."""
    ended = [record.numbers[0] for record in ring.of(Kind.TRANSFER_DONE)]
    started = {record.numbers[0]: record for record in ring.of(Kind.TRANSFER)}
    assert len(ended) == len(set(ended))
    assert set(ended) <= set(started)
    for direction, kind in ((Direction.HOST_TO_DEVICE, Kind.LOAD), (Direction.DEVICE_TO_HOST, Kind.BACKUP)):
        tokens = {
            (facts["node_id"], facts["operation_id"]): facts["tokens"]
            for facts in ring.facts(kind)
            if facts.get("accepted", 1)
        }
        moved = []
        for record in started.values():
            if record.named()["direction"] == direction:
                pairs = unpack_pairs(record.extra, record.named()["operations"])
                assert record.named()["tokens"] == sum(tokens[pair] for pair in pairs)
                moved += pairs
        assert len(moved) == len(set(moved))


def evictions_keep_what_backups_wrote(ring: Ring) -> None:
    written: dict[int, list[tuple[int, int]]] = {}
    for record in ring.records:
        facts = record.named()
        if record.kind == Kind.BACKUP and facts["accepted"]:
            written[facts["node_id"]] = unpack_runs(record.extra, facts["runs"])
        elif record.kind == Kind.EVICT and facts["cause"] == EvictCause.DEMOTED:
            assert unpack_runs(record.extra, facts["runs"]) == written[facts["node_id"]]


def loads_read_what_backups_wrote(ring: Ring) -> None:
    """The proof rests on this: since the last reset, a backup of that node wrote the very slots that a load reads."""
    written: dict[int, list[tuple[int, int]]] = {}
    for record in ring.records:
        if record.kind == Kind.RESET:
            written.clear()
        elif record.kind == Kind.BACKUP and record.named()["accepted"]:
            written[record.named()["node_id"]] = unpack_runs(record.extra, record.named()["runs"])
        elif record.kind == Kind.LOAD:
            assert unpack_runs(record.extra, record.named()["runs"]) == written[record.named()["node_id"]]

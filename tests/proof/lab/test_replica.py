"""Data-parallel replicas: one of them is asked, and it is checked that no other has served."""

from __future__ import annotations

import pytest

from .fake_engine import FakeEngine


def routes(engine: FakeEngine, field: str = "routed_dp_rank") -> set[int | None]:
    return {body.get(field) for body in engine.bodies}


def test_without_replicas_nothing_is_added_to_a_request(run_of):
    engine = FakeEngine()
    run = run_of(engine)
    assert routes(engine) == {None}
    assert run.engine.dp_rank is None


@pytest.mark.parametrize("rank", [0, 2])
def test_every_request_goes_to_the_one_that_is_asked_and_the_report_claims_no_more(ask, run_of, rank):
    engine = FakeEngine(dp=3)
    run = run_of(engine, "--dp-rank", str(rank))
    assert (run.outcome.verdict, run.outcome.exit_code) == ("corroborated", 0)
    assert routes(engine) == {rank}
    assert run.engine.dp_rank == rank
    (check,) = [check for check in run.checks if check.name == "replica"]
    assert (check.state, check.says) == (
        "passed",
        f"every request goes to data-parallel rank {rank} of 3 (routed_dp_rank); it served 3 of 3 probes and no other "
        "did",
    )


def test_the_first_one_is_the_default(run_of):
    assert run_of(FakeEngine(dp=2)).engine.dp_rank == 0


def test_sizes_and_fill_are_those_of_the_one_that_is_asked(run_of):
    """The other replicas' caches are seven times as large, and full."""
    run, alone = run_of(FakeEngine(dp=2), "--dp-rank", "1"), run_of(FakeEngine())
    assert run.before.device_capacity == alone.before.device_capacity == 1024
    assert run.before.host_used == alone.before.host_used + 2 * 32, "but for the two probes more"
    assert run.plan.eviction_tokens == alone.plan.eviction_tokens


@pytest.mark.parametrize("fields", [("data_parallel_rank",), ("routed_dp_rank",)])
def test_the_field_that_chooses_is_the_one_that_the_release_knows(run_of, fields):
    engine = FakeEngine(dp=2, route_fields=fields)
    assert run_of(engine, "--dp-rank", "1").outcome.exit_code == 0
    assert routes(engine, fields[0]) == {1}


def test_where_the_api_is_not_described_the_newest_field_is_tried_and_the_probes_decide(ask, run_of):
    known = FakeEngine(dp=2, describes_api=False)
    assert run_of(known, "--dp-rank", "1").outcome.exit_code == 0
    unknown = FakeEngine(dp=2, describes_api=False, route_fields=("data_parallel_rank",))
    result = ask(unknown, "--dp-rank", "1")
    assert result.exit_code == 2
    assert "was told to serve lab-" in result.stderr
    assert "with data-parallel rank 1, and rank 0 served it" in result.stderr
    assert len(unknown.bodies) <= 3


@pytest.mark.parametrize("tells", [True, False])
def test_an_engine_that_ignores_the_choice_is_found_out_by_recorder_or_reply(ask, tells):
    class Ignoring(FakeEngine):
        def _replica(self, body):
            return len(self.bodies) % self.dp

    engine = Ignoring(dp=2, tells_replica=tells)
    result = ask(engine)
    assert result.exit_code == 2
    assert "rank 1 served it" in result.stderr
    assert not [rid for rid in engine.asked if rid.endswith("-A")]


def test_one_that_ignores_it_later_voids_the_run(ask):
    class Failing(FakeEngine):
        def _replica(self, body):
            return 1 if body["rid"].endswith("-C") else 0

    result = ask(Failing(dp=2))
    assert result.exit_code == 2
    assert "with data-parallel rank 0, and rank 1 served it" in result.stderr


def test_with_nobody_to_tell_it_is_said_that_it_was_not_verified(run_of):
    run = run_of(FakeEngine(dp=2, tells_replica=False), "--without-recorder", sidecar=False)
    (check,) = [check for check in run.checks if check.name == "replica"]
    assert check.state == "warning"
    assert "not verified" in check.says


@pytest.mark.parametrize(
    ("engine", "options", "says"),
    [
        (FakeEngine(dp=2), ("--dp-rank", "2"), "has data-parallel ranks 0 to 1: --dp-rank 2 is none of them"),
        (FakeEngine(), ("--dp-rank", "1"), "has no data-parallel replicas: --dp-rank 1 is none of them"),
        (FakeEngine(dp=2, route_fields=()), (), "takes no field that chooses one"),
    ],
)
def test_what_cannot_be_chosen_is_refused_before_anything_is_asked(ask, engine, options, says):
    result = ask(engine, *options)
    assert result.exit_code == 2
    assert says in result.stderr
    assert not engine.bodies


def test_the_limits_of_the_claim_name_the_replica(ask, tmp_path):
    ask(FakeEngine(dp=2), "--dp-rank", "1", "--out", str(tmp_path))
    for report in ("report.md", "report.html"):
        assert "data-parallel rank 1 alone, of 2 replicas" in (tmp_path / report).read_text()

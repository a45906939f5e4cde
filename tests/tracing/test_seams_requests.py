"""What is recorded of a request: its lookup, the one place where its hit is counted, its first token and its end."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hicache_tracing.records import ABSENT, Kind

from .engines import engine as running

PROMPT = list(range(300))
LONGER = [*PROMPT, 7]


class TestLookupAndAdmission:
    def test_of_a_prompt_that_nothing_holds(self, engine):
        engine.serve("cold", PROMPT)
        assert engine.ring().facts(Kind.LOOKUP) == [
            {"prompt_tokens": 300, "device_tokens": 0, "host_tokens": 0, "storage_tokens": 0, "node_id": ABSENT}
        ]
        [admit] = engine.ring().of(Kind.ADMIT)
        assert admit.rid == "cold"
        assert admit.named() == {
            "prompt_tokens": 300,
            "device_tokens": 0,
            "host_tokens": 0,
            "storage_tokens": 0,
            "cached_tokens": 0,
            "computed_tokens": 300,
            "first_chunk_tokens": 300,
        }

    def test_of_a_prompt_that_the_device_holds(self, engine):
        engine.serve("first", PROMPT)
        engine.serve("again", LONGER)
        lookup, admit = engine.ring().facts(Kind.LOOKUP)[-1], engine.ring().facts(Kind.ADMIT)[-1]
        assert (lookup["device_tokens"], lookup["host_tokens"]) == (300, 0)
        assert (admit["device_tokens"], admit["host_tokens"], admit["cached_tokens"]) == (300, 0, 300)
        assert (admit["computed_tokens"], admit["first_chunk_tokens"]) == (1, 1)

    def test_of_a_prompt_that_the_host_holds(self, engine):
        engine.serve("first", PROMPT)
        engine.scheduler.evict(300)
        engine.serve("again", LONGER)
        lookup, admit = engine.ring().facts(Kind.LOOKUP)[-1], engine.ring().facts(Kind.ADMIT)[-1]
        assert (lookup["device_tokens"], lookup["host_tokens"]) == (0, 300)
        assert (admit["device_tokens"], admit["host_tokens"], admit["cached_tokens"]) == (0, 300, 300)

    def test_names_the_node_that_the_load_then_reads(self, engine):
        engine.serve("first", PROMPT)
        engine.scheduler.evict(300)
        engine.serve("again", LONGER)
        [load] = engine.ring().facts(Kind.LOAD)
        assert engine.ring().facts(Kind.LOOKUP)[-1]["node_id"] == load["node_id"]

    def test_a_waiting_request_is_looked_up_again_only_if_the_promise_has_changed(self, engine):
        engine.scheduler.token_budget = 100
        engine.scheduler.receive("big", PROMPT)
        engine.steps(20)
        assert len(engine.ring().of(Kind.LOOKUP)) == 1
        assert engine.ring().of(Kind.ADMIT) == []
        engine.scheduler.token_budget = 1000
        engine.steps()
        assert len(engine.ring().of(Kind.LOOKUP)) == 1
        assert len(engine.ring().of(Kind.ADMIT)) == 1

    def test_nor_if_others_are_tried_in_turn_with_it(self, engine):
        engine.scheduler.token_budget = 100
        for number in range(3):
            engine.scheduler.receive(f"big {number}", [number, *PROMPT])
        for _ in range(20):
            engine.steps()
            engine.scheduler.waiting.append(engine.scheduler.waiting.pop(0))
        assert [record.rid for record in engine.ring().of(Kind.LOOKUP)] == ["big 0", "big 1", "big 2"]

    def test_what_is_remembered_of_promises_goes_with_the_request_and_has_an_end(self, engine, monkeypatch):
        engine.serve("short", PROMPT[:10])
        assert engine.session.promised == {}
        monkeypatch.setattr("hicache_tracing.seams.lookup.MAX_PROMISED", 5)
        engine.scheduler.token_budget = 0
        for number in range(12):
            engine.scheduler.receive(f"waits {number}", PROMPT)
            engine.steps()
            engine.scheduler.waiting.pop()
        assert 0 < len(engine.session.promised) <= 5
        engine.tree.reset()
        assert engine.session.promised == {}

    def test_deferred_after_its_load_it_is_admitted_once_and_what_was_loaded_counts_once(self, engine, monkeypatch):
        """The rows are on the device when it is tried again: the load is told, and no second one."""
        engine.serve("first", PROMPT)
        engine.scheduler.evict(300)
        adder = engine.module("managers.schedule_policy").PrefillAdder
        refuse, tried = engine.module("managers.schedule_policy").AddReqResult.NO_TOKEN, []
        wrapper = adder.add_one_req

        def too_late(self, req, *others, **named):
            result = wrapper(self, req, *others, **named)
            tried.append(req.rid)
            if len(tried) == 1:
                self.can_run_list.clear()
                return refuse
            return result

        monkeypatch.setattr(adder, "add_one_req", too_late)
        engine.serve("again", LONGER)
        assert tried == ["again", "again"]
        ring = engine.ring()
        assert [record.rid for record in ring.of(Kind.ADMIT)] == ["first", "again"]
        assert [record.rid for record in ring.of(Kind.LOAD_BACK)] == ["again"]
        assert [record.rid for record in ring.of(Kind.LOAD)] == ["again"]
        promises = [(fact["device_tokens"], fact["host_tokens"]) for fact in ring.facts(Kind.LOOKUP)]
        assert promises == [(0, 0), (0, 300), (300, 0)]

    def test_two_requests_with_one_promise_are_two_lookups(self, engine):
        engine.scheduler.receive("one", PROMPT)
        engine.scheduler.receive("other", PROMPT)
        engine.steps()
        assert [record.rid for record in engine.ring().of(Kind.LOOKUP)] == ["one", "other"]

    def test_an_id_used_again_after_an_abort_in_the_queue_is_another_request(self, engine):
        engine.scheduler.token_budget = 0
        for entered in (1.0, 2.0):
            engine.scheduler.receive("id", PROMPT).time_stats.wait_queue_entry_time = entered
            engine.steps(3)
            engine.scheduler.waiting.pop()
        assert [record.rid for record in engine.ring().of(Kind.LOOKUP)] == ["id", "id"]
        kinds = [record.kind for record in engine.ring().records if record.rid == "id"]
        assert kinds == [Kind.LOOKUP, Kind.FINISH, Kind.LOOKUP], "what was told of the first is not of the second"
        assert engine.ring().facts(Kind.FINISH)[0]["aborted"] == 1

    def test_one_that_waits_again_after_it_was_retracted_is_the_same(self, engine):
        engine.scheduler.token_budget = 0
        req = engine.scheduler.receive("id", PROMPT)
        for entered in (1.0, 2.0):
            req.time_stats.wait_queue_entry_time = entered
            engine.steps(2)
            req.retracted_stain = True
        assert engine.ring().facts(Kind.FINISH) == []
        assert len(engine.ring().of(Kind.LOOKUP)) == 2

    def test_attribution_that_the_engine_does_not_make_is_absent_not_zero(self, engine, monkeypatch):
        req = engine.scheduler.receive("plain", PROMPT)
        monkeypatch.setattr(type(req), "count_cached", lambda *_: None)
        engine.steps()
        [admit] = engine.ring().facts(Kind.ADMIT)
        assert (admit["device_tokens"], admit["host_tokens"], admit["storage_tokens"]) == (ABSENT, ABSENT, ABSENT)
        assert admit["computed_tokens"] == 300

    def test_a_long_id_is_one_request_under_one_key(self, engine):
        rid = "chatcmpl-" + "f" * 60
        engine.serve(rid, PROMPT)
        [text] = engine.ring().of(Kind.TEXT)
        assert text.extra[: text.numbers[0]].decode() == rid
        for kind in (Kind.LOOKUP, Kind.ADMIT, Kind.FIRST_TOKEN, Kind.FINISH):
            assert [record.rid for record in engine.ring().of(kind)] == [text.rid]


class TestChunkedPrefill:
    def test_is_one_admission_and_one_first_token(self, engine):
        engine.scheduler.chunk = 100
        engine.serve("long", PROMPT)
        [admit] = engine.ring().facts(Kind.ADMIT)
        assert (admit["computed_tokens"], admit["first_chunk_tokens"]) == (300, 100)
        assert len(engine.ring().of(Kind.FIRST_TOKEN)) == 1
        assert len(engine.ring().of(Kind.FINISH)) == 1

    def test_backups_of_each_chunk_belong_to_the_request(self, engine):
        engine.scheduler.chunk = 100
        engine.serve("long", PROMPT)
        backups = engine.ring().of(Kind.BACKUP)
        assert len(backups) > 1
        assert {record.rid for record in backups} == {"long"}


class TestFirstTokenAndEnd:
    def test_once_with_the_requests_own_times(self, engine):
        req = engine.scheduler.receive("short", PROMPT, max_new_tokens=3)
        req.time_stats.forward_entry_time = 2.5
        engine.scheduler.receive("other", PROMPT[:50], max_new_tokens=3)
        engine.steps(5)
        tokens = engine.ring().of(Kind.FIRST_TOKEN)
        assert [record.rid for record in tokens] == ["short", "other"]
        assert tokens[0].named() == {
            "prompt_tokens": 300,
            "received_ns": 1_250_000_000,
            "prefill_start_ns": 2_500_000_000,
            "batch_requests": 2,
        }
        assert tokens[1].named()["prefill_start_ns"] == ABSENT, "a time that the engine has not set yet"

    def test_the_end_of_each(self, engine):
        engine.serve("short", PROMPT, max_new_tokens=3)
        [finish] = engine.ring().of(Kind.FINISH)
        assert finish.rid == "short"
        assert finish.named() == {"prompt_tokens": 300, "output_tokens": 3, "aborted": 0, "retractions": 0}

    def test_an_abort(self, engine):
        req = engine.scheduler.receive("unlucky", PROMPT, max_new_tokens=9)
        engine.steps(2)
        engine.scheduler.abort(req)
        assert engine.ring().facts(Kind.FINISH)[-1]["aborted"] == 1

    def test_a_retracted_request_is_counted_once(self, engine):
        req = engine.scheduler.receive("twice", PROMPT, max_new_tokens=5)
        engine.steps(2)
        engine.scheduler.retract(req)
        assert engine.ring().of(Kind.FINISH) == [], "giving its memory back is not its end"
        while not req.finished():
            engine.steps()
        assert len(engine.ring().of(Kind.ADMIT)) == 1
        assert len(engine.ring().of(Kind.FIRST_TOKEN)) == 1
        assert engine.ring().facts(Kind.FINISH)[-1]["retractions"] == 1

    def test_nor_twice_where_the_engine_keeps_no_breakdown(self, engine):
        req = engine.scheduler.receive("twice", PROMPT, max_new_tokens=5)
        engine.steps(2)
        engine.scheduler.retract(req)
        req._cache_breakdown_computed = False
        engine.steps(2)
        assert len(engine.ring().of(Kind.ADMIT)) == 1

    def test_a_batch_launched_before_the_end_was_known_is_no_second_first_token(self, engine):
        """Overlap scheduling: a one-token request is still a decoding member of the mixed batch that follows."""
        req = engine.scheduler.receive("one", PROMPT, max_new_tokens=1)
        batch = engine.scheduler.step()
        assert req.finished()
        late = type(batch)([req], engine.mode("MIXED"))
        engine.scheduler.process_batch_result(late, [0])
        assert len(engine.ring().of(Kind.FIRST_TOKEN)) == 1

    def test_nor_is_the_batch_that_was_under_way_when_it_was_retracted(self, engine):
        req = engine.scheduler.receive("one", PROMPT, max_new_tokens=5)
        batch = engine.scheduler.step()
        engine.scheduler.retract(req)
        engine.scheduler.process_batch_result(type(batch)([req], engine.mode("MIXED")), [0])
        assert len(engine.ring().of(Kind.FIRST_TOKEN)) == 1

    def test_of_a_request_whose_admission_we_failed_to_see(self, engine):
        engine.serve("seen", PROMPT[:50])
        assert not engine.session.first_tokens.gate.open, "nobody waits for a first token"
        [admission] = [seam for seam in engine.session.seams if seam.name.endswith("prepare_for_extend")]
        while admission.on:
            admission.fault(ValueError("of ours"))
        engine.serve("unseen", PROMPT)
        assert [record.rid for record in engine.ring().of(Kind.ADMIT)] == ["seen"]
        assert [record.rid for record in engine.ring().of(Kind.FIRST_TOKEN)] == ["seen", "unseen"]

    def test_no_batch_is_looked_at_while_nobody_waits_for_one(self, engine):
        gate = engine.session.first_tokens.gate
        engine.scheduler.receive("first", PROMPT, max_new_tokens=9)
        engine.steps(2)
        assert not gate.open
        second = engine.scheduler.receive("second", PROMPT[:50], max_new_tokens=9)
        engine.scheduler.chunk = 20
        engine.steps(1)
        assert gate.open, "its first chunk has brought none"
        engine.scheduler.abort(second)
        assert not gate.open, "it will never get one"

    def test_of_more_requests_than_are_remembered(self, engine, monkeypatch):
        monkeypatch.setattr("hicache_tracing.first_tokens.MAX_DUE", 2)
        engine.scheduler.chunk = 20
        for name in ("one", "two", "three"):
            engine.scheduler.receive(name, [len(name), *PROMPT[:15]], max_new_tokens=9)
        engine.scheduler.receive("long", PROMPT, max_new_tokens=9)
        engine.steps(25)
        assert {record.rid for record in engine.ring().of(Kind.FIRST_TOKEN)} == {"one", "two", "three", "long"}

    def test_decoding_records_nothing(self, engine):
        req = engine.scheduler.receive("chatty", PROMPT, max_new_tokens=50)
        engine.steps(3)
        engine.settle()
        head = engine.ring().head
        engine.steps(20)
        assert not req.finished()
        assert engine.ring().head == head


class TestTraceContext:
    SPAN = SimpleNamespace(
        get_span_context=lambda: SimpleNamespace(trace_id=(1 << 127) | 5, span_id=(1 << 63) | 6, trace_flags=1)
    )

    def test_of_the_engines_own_tracing(self, engine):
        req = engine.scheduler.receive("traced", PROMPT)
        req.time_stats.trace_ctx = SimpleNamespace(tracing_enable=True, root_span_context={"key": self.SPAN})
        engine.steps()
        [trace] = engine.ring().of(Kind.TRACE)
        assert trace.rid == "traced"
        assert trace.named() == {
            "trace_id_high": -(1 << 63),
            "trace_id_low": 5,
            "span_id": -(1 << 63) + 6,
            "sampled": 1,
        }

    def test_of_tracing_that_is_switched_off_is_none(self, engine):
        req = engine.scheduler.receive("untraced", PROMPT)
        req.time_stats.trace_ctx = SimpleNamespace(tracing_enable=False, root_span_context={"key": self.SPAN})
        engine.steps()
        assert engine.ring().of(Kind.TRACE) == []

    def test_a_null_context_that_answers_everything_with_itself_is_none(self, engine):
        class Null:
            def __getattr__(self, _name):
                return self

            def __call__(self, *_args, **_kwargs):
                return self

        req = engine.scheduler.receive("untraced", PROMPT)
        req.time_stats.trace_ctx = Null()
        engine.steps()
        assert engine.ring().of(Kind.TRACE) == []
        assert len(engine.ring().of(Kind.ADMIT)) == 1


def test_identity_names_the_process_by_what_its_objects_say(engine, release):
    identity = engine.ring().identity
    assert {
        name: identity[name]
        for name in ("tp_rank", "pp_rank", "dp_rank", "tp_size", "page_size", "bytes_per_token", "model", "port")
    } == {
        "tp_rank": 1,
        "pp_rank": 0,
        "dp_rank": 0,
        "tp_size": 2,
        "page_size": 1,
        "bytes_per_token": 512,
        "model": "tiny",
        "port": 30000,
    }
    assert (identity["device_tokens"], identity["host_tokens"], identity["load_back_threshold"]) == (1000, 3000, 10)
    assert identity["tree"] == {"v0523": "UnifiedRadixCache", "v059": "HiRadixCache"}[release]
    assert identity["write_policy"] == "write_through"
    assert identity["content_mode"] == "off"


@pytest.mark.parametrize("content", ["sampled", "full"])
def test_pools_that_cannot_be_witnessed_are_said_so_and_the_rest_is_recorded(release, tmp_path, content, caplog):
    with running(release, tmp_path, {"content": content}) as engine:
        engine.serve("one", PROMPT)
        assert engine.ring().identity["content_mode"].startswith("refused: ")
        assert len(engine.ring().of(Kind.ADMIT)) == 1
    assert len([record for record in caplog.records if "no content witness" in record.getMessage()]) == 1

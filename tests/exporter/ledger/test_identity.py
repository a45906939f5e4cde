"""Who wrote a ring."""

import pytest

from hicache_exporter.core.identity import parse_identity, watches

from ..scribe import IDENTITY


def rank(**facts):
    return parse_identity({**IDENTITY, **facts}).rank


def leads(**facts):
    return parse_identity({**IDENTITY, **facts}).leads


def test_a_rank_is_named_by_the_kinds_that_the_engine_has_more_than_one_of():
    assert rank() == "tp0"
    assert rank(tp_size=8, tp_rank=3) == "tp3"
    assert rank(tp_size=8, tp_rank=3, pp_size=2, pp_rank=1) == "pp1-tp3"
    assert rank(dp_size=2, dp_rank=1, pp_size=2, pp_rank=1) == "dp1-pp1-tp0"


def test_one_rank_of_a_group_leads():
    assert leads()
    assert not leads(tp_size=2, tp_rank=1)
    assert not leads(pp_size=2, pp_rank=1)
    assert leads(dp_size=2, dp_rank=1)


def test_with_data_parallel_attention_the_first_rank_of_each_group_leads():
    assert leads(tp_size=4, dp_size=2, dp_rank=1, tp_rank=2, attn_tp_rank=0)
    assert not leads(tp_size=4, dp_size=2, dp_rank=1, tp_rank=3, attn_tp_rank=1)


def test_with_context_parallel_attention_ranks_that_share_a_prompt_have_one_that_leads():
    assert leads(tp_size=4, tp_rank=0, attn_tp_rank=0, attn_cp_rank=0)
    assert not leads(tp_size=4, tp_rank=2, attn_tp_rank=0, attn_cp_rank=1)


@pytest.mark.parametrize("port", [None, 0, 70000, "30000", True])
def test_without_a_port_it_is_not_known_whose_ring_it_is(port):
    assert parse_identity({**IDENTITY, "port": port}) is None


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("0.0.0.0", "127.0.0.1:30000"),
        ("::", "127.0.0.1:30000"),
        (None, "127.0.0.1:30000"),
        ("10.0.0.5", "10.0.0.5:30000"),
    ],
)
def test_where_the_engine_answers(host, address):
    assert parse_identity({**IDENTITY, "host": host}).address == address


def test_what_is_missing_is_none_and_never_zero():
    identity = parse_identity({"port": 30000})
    assert (identity.page_size, identity.bytes_per_token, identity.has_hicache) == (None, None, False)


def test_a_function_is_watched_if_one_class_has_its_seam_attached_and_none_tripped():
    assert watches({"A.load": "attached", "B.load": "missing"}, ("load",))
    assert not watches({"A.load": "attached", "B.load": "tripped"}, ("load",))
    assert not watches({"A.load": "pending"}, ("load",))
    assert not watches({}, ("load",))
    assert not watches({"A.reload": "attached"}, ("load",))


def test_seams_of_a_tree_that_the_engine_does_not_run_are_not_watching():
    seams = {"A.load": "attached", "B.load": "unrecognised"}
    assert watches(seams, ("load",))
    assert watches(seams, ("load",), frozenset({"A.load"}))
    assert not watches(seams, ("load",), frozenset())
    assert watches({"A.load": "attached", "B.load": "tripped"}, ("load",), frozenset({"A.load"}))


@pytest.mark.parametrize(
    ("told", "known"),
    [({"in_use": ["A.load", 7]}, frozenset({"A.load"})), ({"in_use": "A.load"}, None), ({}, None)],
)
def test_an_older_recorder_does_not_say_which_seams_are_in_use(told, known):
    assert parse_identity({**IDENTITY, **told}).in_use == known

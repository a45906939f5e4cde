"""Whatever numbers an engine writes into its records, nothing here raises: a new engine must not stop the sidecar."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hicache_exporter.core.decoding import decode
from hicache_exporter.core.engine_ledger import FINAL_NS, EngineLedger
from hicache_exporter.core.identity import parse_identity
from hicache_exporter.core.spans import request_spans
from hicache_exporter.core.timeline import timeline
from hicache_proof.verdict import judge
from hicache_tracing.records import ABSENT, Kind, pack

from ..scribe import IDENTITY
from .ledgers import ALL_ATTACHED, CLOCK

SMALL = st.integers(-1, 6)
NUMBER = st.one_of(SMALL, SMALL, SMALL, st.just(ABSENT), st.integers(-(2**63), 2**63 - 1))
RECORD = st.tuples(
    st.sampled_from(list(Kind)),
    st.sampled_from([b"", b"a", b"b", b"\xff" + bytes(39)]),
    st.tuples(*[NUMBER] * 8),
    st.one_of(st.just(b""), st.binary(max_size=300), st.just(b"\x01\x00\x00\x00\x02\x00\x00\x00" * 3)),
    st.integers(0, 2**63 - 1),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(RECORD, max_size=60), st.booleans())
def test_any_records_can_be_told_judged_and_shown(records, ends):
    engine = EngineLedger("e", 0)
    ledger = engine.open("ring", parse_identity({**IDENTITY, "content_mode": "full"}), CLOCK)
    ledger.see_seams(ALL_ATTACHED)
    seq, pieces = 1, []
    for kind, rid, numbers, extra, t_ns in sorted(records, key=lambda record: record[-1]):
        pieces.append(pack(seq, kind, t_ns, rid, numbers, extra))
        seq += len(pieces[-1]) // 128
    found = decode(b"".join(pieces), 1, overwritable=0, complete=True)
    ledger.tell(found.rows, found.extras, found.losses)
    if ends:
        ledger.end()
    for case in engine.due(2**63 + FINAL_NS):
        judgement = judge(case.evidence)
        timeline(ledger, case.witnessed.story)
        request_spans(ledger, case.witnessed.story, case.evidence, judgement)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*IDENTITY, "attn_tp_rank"]),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=300)),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        ),
    )
)
def test_any_identity_is_taken_or_left(facts):
    identity = parse_identity({"port": 30000, **facts})
    assert identity is None or (len(identity.rank) < 100 and len(identity.model) <= 200)

"""Asking the sidecar: what it knows, what it does not, and how long it is waited for."""

from __future__ import annotations

import httpx
import msgspec
import pytest

from hicache_proof.evidence import Evidence, Recorder
from hicache_proof.lab.sidecar import PATIENT_WAIT, SHORT_WAIT, WAIT, NoProof, SidecarClient
from hicache_proof.verdict import judge

EVIDENCE = Evidence(request_id="r", engine="a:1", rank="tp0", recorder=Recorder(watching=True, lost_records=0))


def proof(**changes):
    document = {
        "evidence": EVIDENCE,
        "judgement": judge(EVIDENCE),
        "events": [],
        "final": True,
        "summary": {"at": "now"},
    }
    return msgspec.json.encode(document | changes)


@pytest.fixture
def client():
    """A client whose sidecar answers /proofs with the given replies in turn; it keeps the waits that were asked for."""

    def make(*replies, healthy=200):
        left = list(replies)

        def answer(request):
            if request.url.path == "/-/healthy":
                return httpx.Response(healthy)
            made.waits.append(float(request.url.params["wait"]))
            status, body = left.pop(0)
            return httpx.Response(status, content=body)

        made = SidecarClient("http://sidecar", httpx.Client(transport=httpx.MockTransport(answer)))
        made.waits = []
        return made

    return make


UNKNOWN = (404, b'{"error": "request r is not known"}')


def test_a_proof_is_read_whole(client):
    found = client((200, proof())).proof("r", patient=False)
    assert (found.evidence, found.summary.at, found.final) == (EVIDENCE, "now", True)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (UNKNOWN, "does not know the request: request r is not known"),
        ((500, b""), "answers 500"),
        ((200, proof(evidence={"request_id": "r"})), "of another version"),
        ((200, b"{"), "of another version"),
    ],
)
def test_nothing_known_comes_with_the_reason(client, reply, why):
    found = client(reply).proof("r", patient=False)
    assert isinstance(found, NoProof)
    assert why in found.why


def test_a_sidecar_that_is_not_well_is_not_asked(client):
    sidecar = client(healthy=500)
    assert "answers 500" in sidecar.proof("r", patient=True).why
    assert sidecar.waits == []


def test_after_a_disappointment_only_the_deciding_request_is_waited_for(client):
    sidecar = client(UNKNOWN, (200, proof(final=False)), UNKNOWN, (200, proof()), (200, proof()))
    for patient in (False, False, True, False, False):
        sidecar.proof("r", patient=patient)
    assert sidecar.waits == [WAIT, SHORT_WAIT, PATIENT_WAIT, SHORT_WAIT, WAIT]


def test_a_sidecar_that_reads_no_recorder_is_not_waited_for(client):
    sidecar = client(UNKNOWN, UNKNOWN)
    sidecar.proof("r", patient=False)
    sidecar.proof("r", patient=True)
    assert sidecar.waits == [WAIT, SHORT_WAIT]


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"[" * 100_000, b'{"engines": [5]}', b"\xff"])
def test_something_else_in_its_place_knows_nothing(body):
    def answer(_request):
        return httpx.Response(200, content=body)

    sidecar = SidecarClient("http://sidecar", httpx.Client(transport=httpx.MockTransport(answer)))
    assert (sidecar.engines(), sidecar.host_tokens("http://e:1"), sidecar.backed_up_tokens("http://e:1")) == (None,) * 3

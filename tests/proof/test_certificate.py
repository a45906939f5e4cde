"""A certificate holds exactly as long as nobody touches it, and its published schema describes it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from hicache_proof import files
from hicache_proof.certificate import FORMAT, Certificate, Versions, digest, encode, issue
from hicache_proof.evidence import Evidence
from hicache_proof.rules import RULES
from hicache_proof.schema import PUBLISHED, generate
from hicache_proof.verify import UnreadableError, verify
from hicache_proof.verify_command import command

from .evidences import COLD, EVERYTHING, L1_HIT, L2_READ, RECORDER_OFF, answer, but, content, physical, sibling

VERSIONS = Versions(tool="0.1.0", python="3.11.9", platform="Linux", engine="0.5.23", model="tiny")
NOTHING = Evidence(request_id="r", engine="e", rank="tp0", recorder=RECORDER_OFF)
ON_TWO_GPUS = but(EVERYTHING, ranks=(sibling(physical=physical()),))
SAMPLES = [
    L2_READ,
    EVERYTHING,
    ON_TWO_GPUS,
    L1_HIT,
    COLD,
    NOTHING,
    but(transfers=()),
    but(content=content(mismatched=3)),
]


def document(evidence: Evidence = EVERYTHING) -> bytes:
    return encode(issue(evidence, VERSIONS, "2026-10-01T12:00:00+00:00", at="2026-10-01T11:59:58+00:00"))


def tampered(*path: str | int, to: Any, evidence: Evidence = EVERYTHING) -> bytes:
    """The document with one value changed and nothing else, not even its digest."""
    whole = json.loads(document(evidence))
    place = whole
    for step in path[:-1]:
        place = place[step]
    assert place[path[-1]] != to
    place[path[-1]] = to
    return json.dumps(whole).encode()


@pytest.mark.parametrize("evidence", SAMPLES)
def test_a_certificate_holds_as_issued(evidence: Evidence) -> None:
    verification = verify(document(evidence))
    assert verification.holds, verification.differences


def test_it_names_the_rule_with_its_sentence_and_where_each_number_came_from() -> None:
    certificate = issue(L2_READ, VERSIONS, "2026-10-01T12:00:00+00:00")
    assert (certificate.rule.id, certificate.rule.sentence) == ("all-agree", RULES["all-agree"])
    assert sorted(certificate.sources) == [
        "attribution",
        "load_back",
        "lookup",
        "provenance",
        "residency",
        "transfer",
    ]


def test_layout_of_the_file_does_not_matter() -> None:
    rewritten = json.dumps(dict(reversed(json.loads(document()).items())), indent=7).encode()
    assert verify(rewritten).holds


def test_a_certificate_from_before_siblings_had_a_bus_holds() -> None:
    whole = json.loads(document())
    for view in whole["evidence"]["ranks"]:
        del view["physical"]
    whole["digest"] = digest(whole)
    verification = verify(json.dumps(whole).encode())
    assert verification.holds, verification.differences


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (tampered("evidence", "lookup", "host_tokens", to=300), {"digest", "witness lookup"}),
        (tampered("evidence", "transfers", to=[]), {"digest", "verdict", "served_by", "content", "rule", "reasons"}),
        (
            tampered("evidence", "ranks", 0, "physical", "bus_bytes", to=89_000, evidence=ON_TWO_GPUS),
            {"digest", "verdict", "rule", "witness physical"},
        ),
        (tampered("judgement", "verdict", to="proven"), {"digest", "verdict"}),
        (tampered("judgement", "served_by", to="device"), {"digest", "served_by"}),
        (tampered("judgement", "content", to="damaged"), {"digest", "content"}),
        (tampered("judgement", "reasons", to=[]), {"digest", "reasons"}),
        (tampered("judgement", "witnesses", 0, "stance", to="silent"), {"digest", "witness lookup"}),
        (tampered("judgement", "witnesses", to=[]), {"digest", "witnesses"}),
        (tampered("rule", "sentence", to="Because."), {"digest", "sentence of the rule"}),
        (tampered("judgement", "witnesses", 0, "says", to="Seen."), {"digest", "witness lookup"}),
        (tampered("subject", "request_id", to="another"), {"digest", "request_id"}),
        (tampered("subject", "engine", to="another"), {"digest", "engine"}),
        (tampered("subject", "rank", to="tp9"), {"digest", "rank"}),
        (tampered("created_at", to="2020-01-01T00:00:00Z"), {"digest"}),
        (tampered("versions", "engine", to="0.5.22"), {"digest"}),
        (tampered("digest", to="sha256:0"), {"digest"}),
    ],
)
def test_what_was_changed_is_told(document: bytes, told: set[str]) -> None:
    assert told <= {difference.partition(":")[0] for difference in verify(document).differences}


@given(st.data())
def test_no_number_of_the_evidence_can_be_changed_unnoticed(data: st.DataObject) -> None:
    whole = json.loads(document())
    numbers = [
        (fact, name)
        for fact, fields in whole["evidence"].items()
        if isinstance(fields, dict)
        for name, value in fields.items()
        if isinstance(value, int)
    ]
    fact, name = data.draw(st.sampled_from(numbers))
    value = whole["evidence"][fact][name]
    whole["evidence"][fact][name] = (not value) if isinstance(value, bool) else value + 1
    assert not verify(json.dumps(whole).encode()).holds


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"no JSON",
        b"[]",
        b"{}",
        tampered("format", to="hicache-witness/certificate/2"),
        tampered("evidence", "recorder", to=None),
        tampered("judgement", "verdict", to="certain"),
    ],
)
def test_what_is_no_certificate_is_refused(document: bytes) -> None:
    with pytest.raises(UnreadableError):
        verify(document)


def test_numbers_that_json_can_not_say_are_refused_at_issue() -> None:
    with pytest.raises(ValueError, match="JSON"):
        document(but(answer=answer(delta=float("nan"))))


def test_the_published_schema_is_the_one_of_the_types() -> None:
    assert generate() == PUBLISHED.read_bytes(), "python -m hicache_proof.schema"


@pytest.mark.parametrize("evidence", SAMPLES)
def test_certificates_follow_the_published_schema(evidence: Evidence) -> None:
    schema = json.loads(PUBLISHED.read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(document(evidence)), schema)


@pytest.mark.parametrize(
    ("path", "to"), [(("format",), FORMAT + "0"), (("evidence", "invented"), 1), (("judgement", "verdict"), "certain")]
)
def test_the_published_schema_refuses_others(path: tuple[str, ...], to: object) -> None:
    whole = json.loads(document())
    place = whole
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(whole, json.loads(PUBLISHED.read_bytes()))


def test_the_command_says_that_it_holds(tmp_path: Any) -> None:
    files.write_whole(tmp_path / "certificate.json", document())
    result = CliRunner().invoke(command, [str(tmp_path / "certificate.json")])
    assert result.exit_code == 0
    assert result.output == "The certificate on request request-c holds: verdict corroborated, content intact.\n"


def test_the_report_of_a_lab_run_is_told_from_a_certificate(tmp_path: Any) -> None:
    (tmp_path / "report.json").write_text('{"schema": "hicache-witness/lab-run/1", "outcome": {}}')
    result = CliRunner().invoke(command, [str(tmp_path / "report.json")])
    assert result.exit_code == 2
    assert "it is the report of a lab run, whose certificate.json lies beside it" in result.stderr


def test_the_command_says_what_differs(tmp_path: Any) -> None:
    (tmp_path / "certificate.json").write_bytes(tampered("judgement", "verdict", to="proven"))
    result = CliRunner().invoke(command, [str(tmp_path / "certificate.json")])
    assert result.exit_code == 1
    assert "  verdict: the file states proven, the evidence gives corroborated\n" in result.output
    assert "issued by hicache-witness 0.1.0" in result.output


def test_texts_that_differ_are_shown() -> None:
    witness = verify(tampered("judgement", "witnesses", 0, "says", to="Seen.")).differences[1]
    assert witness.startswith('witness lookup: the file has it say "Seen.", the evidence gives "matched ')
    reasons = verify(tampered("judgement", "reasons", to=["One.", "Two."])).differences[1]
    assert reasons.startswith('reasons: the file states "One." "Two.", the evidence gives "')
    assert verify(tampered("judgement", "reasons", to=[])).differences[1].startswith("reasons: the file states none, ")


def test_no_difference_is_told_twice() -> None:
    whole = json.loads(document())
    whole["judgement"]["rule"] = whole["rule"]["id"] = "open"
    whole["rule"]["sentence"] = RULES["open"]
    told = [difference for difference in verify(json.dumps(whole).encode()).differences if "rule" in difference]
    assert told == ["rule: the file states open, the evidence gives all-agree-outside-too"]


def test_the_command_answers_in_json(tmp_path: Any) -> None:
    (tmp_path / "certificate.json").write_bytes(tampered("created_at", to="now"))
    result = CliRunner().invoke(command, [str(tmp_path / "certificate.json"), "--json"])
    answered = json.loads(result.output)
    assert result.exit_code == 1
    assert (answered["holds"], answered["verdict"], len(answered["differences"])) == (False, "corroborated", 1)


@pytest.mark.parametrize("content", [None, b"{}"])
def test_the_command_says_in_one_sentence_what_it_can_not_read(tmp_path: Any, content: bytes | None) -> None:
    path = tmp_path / "certificate.json"
    if content is not None:
        path.write_bytes(content)
    result = CliRunner().invoke(command, [str(path)])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "certificate.json"
    files.write_whole(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_certificate_reads_back_as_it_was_written() -> None:
    issued = issue(EVERYTHING, VERSIONS, "2026-10-01T12:00:00+00:00")
    assert msgspec.json.decode(encode(issued), type=Certificate) == issued

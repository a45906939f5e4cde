"""The text reader: the same numbers as prometheus-client's parser, from every engine, and no harm from any text."""

from __future__ import annotations

import math
import time

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from hicache_exporter.core import engine_text
from hicache_exporter.core.engine_families import WANTED
from hicache_exporter.core.engine_text import EncodingError, TruncatedError, read, spellings

from .samples import LATEST, RECORDED, metrics_of

HIT = spellings(["cached_tokens_total", "x", "h_bucket"])


def hits(line: str, **kwargs):
    return read((line + "\n").encode(), HIT, **kwargs)


def one(line: str):
    (sample,) = hits(line).of("x")
    return sample


def by_oracle(text: str, wanted=WANTED, parse=text_string_to_metric_families):
    return sorted(
        (wanted[sample.name], sorted(sample.labels.items()), sample.value)
        for family in parse(text)
        for sample in family.samples
        if sample.name in wanted
    )


def by_us(body: bytes, wanted=WANTED, **kwargs):
    found = read(body, wanted, **kwargs)
    assert found.unreadable == 0
    return sorted((name, sorted(s.labels.items()), s.value) for name, all_ in found.samples.items() for s in all_)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_answer_gives_the_numbers_of_the_reference_parser(name):
    text = metrics_of(name)
    ours = by_us(text.encode())
    assert len(ours) > 50
    assert ours == by_oracle(text)


def test_every_family_can_be_read_not_only_those_that_the_exporter_needs():
    text = metrics_of(LATEST)
    names = {s.name: s.name for f in text_string_to_metric_families(text) for s in f.samples}
    ours, oracle = by_us(text.encode(), names), by_oracle(text, names)
    assert len(ours) == len(oracle) > 500
    for mine, theirs in zip(ours, oracle, strict=True):
        assert mine == theirs or (mine[:2] == theirs[:2] and math.isnan(mine[2]) and math.isnan(theirs[2]))


@pytest.mark.parametrize("name", RECORDED)
def test_underscore_names_are_the_same_families(name):
    text = metrics_of(name)
    assert by_us(text.replace("\nsglang:", "\nsglang_").encode()) == by_us(text.encode())


def test_openmetrics_gives_the_same_numbers():
    lines = [line for line in metrics_of(LATEST).split("\n") if "cached_tokens" in line or "queue_time" in line]
    text = "\n".join(lines).replace("# TYPE sglang:cached_tokens_total", "# TYPE sglang:cached_tokens")
    text = text.replace("# HELP sglang:cached_tokens_total", "# HELP sglang:cached_tokens") + "\n# EOF\n"
    assert by_us(text.encode(), openmetrics=True) == by_oracle(text, parse=openmetrics_families)


def test_exemplars_and_timestamps_are_passed_over():
    body = b'sglang:h_bucket{le="1.0"} 7 1700000000.123 # {trace_id="a}b"} 0.5 1700000000.0\n# EOF\n'
    (sample,) = read(body, HIT, openmetrics=True).of("h_bucket")
    assert (sample.labels, sample.value) == ({"le": "1.0"}, 7.0)
    assert one("sglang:x 3 1700000000123").value == 3


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r'a="back\\slash"', {"a": "back\\slash"}),
        (r'a="line\nfeed"', {"a": "line\nfeed"}),
        (r'a="quo\"te"', {"a": 'quo"te'}),
        (r'a="\\n is no line feed"', {"a": "\\n is no line feed"}),
        (r'a="\q stays"', {"a": r"\q stays"}),
        ('a="brace } and # and { inside"', {"a": "brace } and # and { inside"}),
        ('a="comma, and =",b=""', {"a": "comma, and =", "b": ""}),
        ('a="1",', {"a": "1"}),
        (' a = "1" , b="2" ', {"a": "1", "b": "2"}),
        ('a="ключ \u2028 ünïcode"', {"a": "ключ \u2028 ünïcode"}),
        ("", {}),
    ],
)
def test_labels(written, meant):
    assert one(f"sglang:x{{{written}}} 1").labels == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [("1", 1), ("+1.5e3", 1500), (".5", 0.5), ("5.", 5), ("-0", 0), ("+Inf", math.inf), ("-inf", -math.inf)],
)
def test_numbers(written, meant):
    assert one(f"sglang:x {written}").value == meant


def test_nan_is_a_number_of_its_own():
    assert math.isnan(one("sglang:x NaN").value)


@pytest.mark.parametrize("number", ["1_000", "0x10", "", "one", "1,5", "--1", "١٢", "1e", "infinite", "nanny", "1.2.3"])
def test_what_is_no_number_is_counted_and_gives_no_sample(number):
    found = hits(f'sglang:x{{a="1"}} {number}')
    assert (found.of("x"), found.unreadable) == ((), 1)


@pytest.mark.parametrize(
    "line",
    [
        "<html>",
        'sglang:x{a="1" 5',
        'sglang:x{a="1"b="2"} 5',
        'sglang:x{a="1",a="2"} 5',
        r'sglang:x{a="\n",a="2"} 5',
        "sglang:x{a=1} 5",
        'sglang:x{1a="1"} 5',
        "sglang:x-5",
        "sglang:x",
        '{"sglang.x"} 5',
        "\x00\x01",
        'sglang:x{a="never ends} 5',
        'sglang:x{a="1"} 5 #1',
    ],
)
def test_garbage_is_counted_and_the_rest_is_read(line):
    found = read(f'{line}\nsglang:x{{a="good"}} 5\n'.encode(), HIT)
    assert [sample.labels for sample in found.of("x")] == [{"a": "good"}]
    assert found.unreadable == 1


def test_carriage_returns_blank_lines_and_indents_do_not_matter():
    body = b'\r\n  # HELP sglang:x text\r\n\tsglang:x{a="1"} 5 \r\nsglang:x{a="2"}\t6\r\n\r\n'
    found = read(body, HIT)
    assert [(s.labels["a"], s.value) for s in found.of("x")] == [("1", 5), ("2", 6)]
    assert found.unreadable == 0


def test_a_series_that_is_given_twice_counts_once():
    assert one('sglang:x{a="1"} 5\nsglang:x{a="1"} 7').value == 7


def test_a_name_is_matched_whole():
    assert hits("sglang:xx 5\nsglang:x_total 6\nother:x 7\nx 8").samples == {}


@pytest.mark.parametrize("cut", [1, 2, 5, 40, 1000])
def test_a_text_that_was_cut_off_is_refused(cut):
    body = metrics_of(LATEST).encode()
    assert body.endswith(b"\n")
    with pytest.raises(TruncatedError):
        read(body[:-cut], WANTED)


def test_openmetrics_without_its_end_mark_is_refused():
    with pytest.raises(TruncatedError):
        read(b"sglang:x 1\n", HIT, openmetrics=True)


@pytest.mark.parametrize("body", [b'sglang:x{a="\xff"} 1\n', "sglang:x 1\n".encode("utf-16"), b"\x80\n"])
def test_what_is_not_utf8_is_refused(body):
    with pytest.raises(EncodingError):
        read(body, HIT)


def test_a_byte_order_mark_is_no_name():
    assert read("\ufeffsglang:x 1\n".encode(), HIT).of("x")[0].value == 1


def test_an_answer_of_another_program_has_no_engine_families():
    assert not read(b"node_load1 0.5\n", WANTED).engine_families
    assert read(b'sglang:http_requests_active{a="b"} 0\n', WANTED).engine_families


HOSTILE = ("sglang:x{" + 'a="' * 60_000, "sglang:x{" + "\\" * 60_000, 'sglang:x{a="' + '\\"' * 60_000)


@pytest.mark.parametrize("hostile", HOSTILE, ids=["quotes", "backslashes", "escapes"])
def test_a_hostile_line_costs_one_pass(hostile):
    """A pattern that goes back over such a line needs minutes."""
    started = time.perf_counter()
    assert engine_text.read((hostile + "\n").encode(), HIT).unreadable == 1
    assert time.perf_counter() - started < 1

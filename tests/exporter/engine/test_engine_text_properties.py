"""Texts nobody wrote by hand: prometheus-client's parser is the oracle, and no text may do harm."""

from __future__ import annotations

import contextlib
import math

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from hicache_exporter.core.engine_families import WANTED
from hicache_exporter.core.engine_text import EncodingError, TruncatedError, read, spellings

from .samples import LATEST, metrics_of

NAMES = ("cached_tokens_total", "load_back_tokens_total", "num_running_reqs")
WANT = spellings(NAMES)

label_names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True).filter(lambda n: not n.startswith("__"))
label_values = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
numbers = st.one_of(
    st.floats(allow_nan=True),
    st.integers(-(10**20), 10**20),
    st.sampled_from(["+Inf", "-Inf", "NaN", "1e3", "1.5E-3", "+7", ".5", "5."]),
)
blanks = st.sampled_from([" ", "  ", "\t", " \t "])
endings = st.sampled_from(["", " ", " 1700000000123", "\r", "  -5"])


def escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@st.composite
def sample_lines(draw, prefixes=("sglang:", "sglang_", "other:"), names=NAMES, ends=endings):
    labels = draw(st.dictionaries(label_names, label_values, max_size=5))
    inside = ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())
    braces = f"{{{inside}}}" if labels or draw(st.booleans()) else ""
    name = draw(st.sampled_from(prefixes)) + draw(st.sampled_from(names))
    return f"{name}{braces}{draw(blanks)}{draw(numbers)}{draw(ends)}"


def last_of_each_series(samples):
    """A series given twice counts once, so compare the last of each; NaN as text, because it equals nothing."""
    found = {}
    for name, labels, value in samples:
        found[name, tuple(sorted(labels.items()))] = "NaN" if math.isnan(value) else float(value)
    return found


def ours(text: str, **kwargs):
    found = read(text.encode(), WANT, **kwargs)
    return last_of_each_series((name, s.labels, s.value) for name, all_ in found.samples.items() for s in all_), found


def oracle(text: str, parse=text_string_to_metric_families):
    families = list(parse(text))
    return last_of_each_series((WANT[s.name], s.labels, s.value) for f in families for s in f.samples if s.name in WANT)


@given(st.lists(sample_lines(), max_size=20))
@settings(max_examples=120, deadline=None)
def test_valid_lines_give_what_the_oracle_gives(lines):
    text = "".join(line + "\n" for line in lines)
    mine, found = ours(text)
    assert found.unreadable == 0
    assert mine == oracle(text)


@given(st.lists(sample_lines(ends=st.sampled_from(["", " 1700000000123"])), min_size=1, max_size=6), st.data())
@settings(max_examples=120, deadline=None)
def test_a_damaged_line_is_read_as_the_oracle_reads_it_or_not_at_all(lines, data):
    """Nothing is made up: a sample that comes out of a damaged line is one that the oracle sees there too."""
    line = lines[0]
    at = data.draw(st.integers(0, len(line)))
    damage = data.draw(st.sampled_from(["", '"', "\\", "}", "{", ",", "=", " ", "#", "x", "0", "e", ":"]))
    damaged = line[:at] + damage + line[at + data.draw(st.integers(0, 2)) :]
    text = "\n".join([damaged, *lines[1:]]) + "\n"
    rest, _ = ours("\n".join(["", *lines[1:]]) + "\n")
    mine, _ = ours(text)
    made_up = {key: value for key, value in mine.items() if rest.get(key) != value}
    try:
        theirs = oracle(damaged + "\n")
    except ValueError:
        theirs = {}
    assert made_up.items() <= theirs.items()


@given(st.binary(max_size=400), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_read_or_refused(body, openmetrics):
    with contextlib.suppress(TruncatedError, EncodingError):
        read(body, WANT, openmetrics=openmetrics)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_recorded_answer_with_holes_is_read_or_refused(data):
    body = metrics_of(LATEST).encode()
    start = data.draw(st.integers(0, len(body)))
    hole = body[:start] + data.draw(st.binary(max_size=5)) + body[start + data.draw(st.integers(0, 200)) :]
    with contextlib.suppress(TruncatedError, EncodingError):
        found = read(hole, WANTED)
        assert found.engine_families


openmetrics_lines = sample_lines(("sglang_",), ("cached_tokens_total",), st.sampled_from(["", " 1700000000.5"]))


@given(openmetrics_lines)
@settings(max_examples=150, deadline=None)
def test_openmetrics_is_read_as_its_own_oracle_reads_it(line):
    body = f"# TYPE sglang_cached_tokens counter\n{line}\n# EOF\n"
    try:
        theirs = oracle(body, openmetrics_families)
    except ValueError:
        return  # OpenMetrics forbids more than we do
    mine, _ = ours(body, openmetrics=True)
    assert mine == theirs

"""The quicker way to encode a page writes what prometheus_client would write, byte for byte."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import exposition
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, NativeHistogram

from hicache_exporter import encoding, names

PROMETHEUS_2 = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
PROMETHEUS_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;q=0.5"
ACCEPTS = (PROMETHEUS_2, PROMETHEUS_3, "application/openmetrics-text", "text/plain;version=0.0.4", "", "*/*")
OTHER_SCHEMES = [f"application/openmetrics-text;version=1.0.0;escaping={scheme}" for scheme in ("dots", "values")]
LABELS = st.dictionaries(st.sampled_from(["engine", "tier", "le", "a", "Z_9"]), st.text(max_size=8), max_size=4)
NUMBERS = st.one_of(st.floats(), st.integers(-(10**18), 10**18), st.booleans())


class Page:
    """What prometheus_client's encoders want of a registry."""

    def __init__(self, metrics):
        self._metrics = metrics

    def collect(self):
        return self._metrics


def every_family():
    """With hostile label values."""
    for family in names.FAMILIES.values():
        metric = Metric(family.name, family.help + ' "quoted" \\ \n', family.type, family.unit)
        labels = dict.fromkeys((*family.labels, "engine"), 'ü"\\\n.-:%s{}')
        suffix = {"counter": "_total", "histogram": "_bucket"}.get(family.type, "")
        exemplar = Exemplar({"trace_id": "ab", "a": '"\\'}, 0.5, 12.25) if suffix else None
        more = {"le": "0.1"} if suffix == "_bucket" else {}
        metric.add_sample(family.name + suffix, labels | more, 1.5, exemplar=exemplar)
        yield metric


def unusual():
    """Nothing that we have: the library knows how to write it."""
    named = Metric("hicache_a.b", "help", "gauge")
    named.add_sample("hicache_a.b", {"c.d": "e"}, 1)
    labelled = Metric("hicache_a", "help", "gauge")
    labelled.add_sample("hicache_a", {"c.d": "e"}, 1)
    stamped = Metric("hicache_b", "help", "unknown")
    stamped.add_sample("hicache_b", {}, 1, timestamp=3)
    created = Metric("hicache_c", "help", "counter")
    created.add_sample("hicache_c_total", {}, 1)
    created.add_sample("hicache_c_created", {}, 1)
    native = Metric("hicache_d", "help", "histogram")
    native.add_sample("hicache_d", {}, 1, native_histogram=NativeHistogram(1, 2, 0, 0, 0))
    return [named, labelled, stamped, created, native]


@pytest.mark.parametrize("accept", ACCEPTS)
def test_it_is_what_the_library_writes(accept):
    encode, content_type = encoding.choose(accept)
    plain, plain_type = exposition.choose_encoder(accept)
    page = list(every_family())
    assert content_type == plain_type
    assert encode(page) == plain(Page(page))
    assert encode(page).count(b"hicache_") > len(names.FAMILIES)


@given(st.lists(st.tuples(LABELS, NUMBERS), max_size=4), st.sampled_from(["gauge", "counter", "info", "histogram"]))
def test_whatever_the_values_are(samples, kind):
    metric = Metric("hicache_any", "help", kind)
    for labels, number in samples:
        metric.add_sample("hicache_any_bucket", labels, number)
    for accept in (PROMETHEUS_2, PROMETHEUS_3, ""):
        assert encoding.choose(accept)[0]([metric]) == exposition.choose_encoder(accept)[0](Page([metric]))


@pytest.mark.parametrize("accept", [*ACCEPTS, *OTHER_SCHEMES])
@pytest.mark.parametrize("metric", unusual(), ids=lambda metric: metric.name)
def test_what_is_unusual_is_left_to_the_library(metric, accept):
    page = [*every_family(), metric]
    assert encoding.choose(accept)[0](page) == exposition.choose_encoder(accept)[0](Page(page))


def test_a_compressed_page_is_the_page():
    page = b"hicache_up 1.0\n" * 1000
    assert zlib.decompress(encoding.compressed(page), wbits=31) == page
    assert len(encoding.compressed(page)) < len(page) / 10


def test_names_and_labels_are_plain():
    for family in names.FAMILIES.values():
        for word in (family.name, *family.labels):
            assert word.replace("_", "a").isascii()
            assert word.replace("_", "a").isalnum()

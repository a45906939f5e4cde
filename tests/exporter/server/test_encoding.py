"""The quicker way to encode a page writes what prometheus_client would write, byte for byte."""

import pytest
from prometheus_client import exposition
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar

from hicache_exporter import encoding, names

PROMETHEUS_2 = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
PROMETHEUS_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;q=0.5"
ACCEPTS = (PROMETHEUS_2, PROMETHEUS_3, "application/openmetrics-text", "text/plain;version=0.0.4", "", "*/*")


class Page:
    """Every family with hostile label values."""

    def collect(self):
        for family in names.FAMILIES.values():
            metric = Metric(family.name, family.help + ' "quoted" \\ \n', family.type, family.unit)
            labels = dict.fromkeys((*family.labels, "engine"), 'ü"\\\n.-:')
            suffix = {"counter": "_total", "histogram": "_bucket"}.get(family.type, "")
            exemplar = Exemplar({"trace_id": "ab"}, 0.5) if suffix else None
            metric.add_sample(family.name + suffix, labels | ({"le": "0.1"} if suffix == "_bucket" else {}), 1.5,
                              exemplar=exemplar)  # fmt: skip
            yield metric


@pytest.mark.parametrize("accept", ACCEPTS)
def test_it_is_what_the_library_writes(accept):
    encode, content_type = encoding.choose(accept)
    plain, plain_type = exposition.choose_encoder(accept)
    assert content_type == plain_type
    assert encode(Page()) == plain(Page())
    assert encode(Page()).count(b"hicache_") > len(names.FAMILIES)


@pytest.mark.parametrize("scheme", ["dots", "values"])
def test_another_scheme_of_names_is_left_to_the_library(scheme):
    accept = f"application/openmetrics-text;version=1.0.0;escaping={scheme}"
    assert encoding.choose(accept)[0](Page()) == exposition.choose_encoder(accept)[0](Page())


def test_names_and_labels_are_plain():
    for family in names.FAMILIES.values():
        for word in (family.name, *family.labels):
            assert word.replace("_", "a").isascii()
            assert word.replace("_", "a").isalnum()

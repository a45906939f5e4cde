"""What holds for every family that the sidecar may ever serve, whatever it is made of."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import pairwise

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric

from hicache_exporter.names import FAMILIES, TTFT

from .server.exposition import series

OF_NO_ENGINE = ("gpu", "host", "sidecar")
UNBOUNDED = {"rid", "request_id", "request", "trace_id", "span_id", "prompt", "user", "node_id", "session", "path"}

OTHER_UNITS = {"ms", "us", "ns", "milliseconds", "minutes", "kb", "mb", "gb", "kib", "mib", "gib", "percent", "total"}


def page() -> str:
    """One series of every family."""

    class Everything:
        def collect(self):
            for family in FAMILIES.values():
                yield sampled(family)

    return generate_latest(Everything()).decode()


def sampled(family) -> Metric:
    metric = Metric(family.name, family.help, family.type, family.unit)
    labels = dict.fromkeys(family.labels, "x") | ({} if family.source in OF_NO_ENGINE else {"engine": "e:1"})
    if family.type == "histogram":
        for bound in (*map(str, family.buckets), "+Inf"):
            metric.add_sample(f"{family.name}_bucket", {**labels, "le": bound}, 1)
        metric.add_sample(f"{family.name}_count", labels, 1)
        metric.add_sample(f"{family.name}_sum", labels, 1)
    else:
        metric.add_sample(family.name + {"counter": "_total", "info": "_info"}.get(family.type, ""), labels, 1)
    return metric


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Debian's prometheus")
def test_promtool_has_nothing_to_say_on_any_of_them():
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=page(), capture_output=True, text=True, timeout=30, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_each_of_them_can_be_read_back():
    served = {re.sub(r"(_bucket|_count|_sum)?\{.*|(_count|_sum)$", "", name) for name in series(page())}
    assert served == {family.name + "_info" if family.type == "info" else family.series for family in FAMILIES.values()}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_its_name_is_ours_in_base_units_and_its_labels_grow_with_no_request(family):
    assert re.fullmatch(r"hicache_[a-z0-9_]+", family.name)
    assert family.help.endswith(".")
    assert not OTHER_UNITS & set(family.name.split("_"))
    assert not set(family.labels) & UNBOUNDED
    assert "model" not in family.labels or family.type == "info"


def test_the_buckets_of_ttft_tell_an_l1_hit_from_an_l2_hit():
    """From 5 ms on, and so fine that twice the time is another bucket up to a second."""
    assert TTFT.buckets[0] == 0.005
    fine = [bound for bound in TTFT.buckets if bound <= 1]
    assert all(after <= 2 * before for before, after in pairwise(fine))

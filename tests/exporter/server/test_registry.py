import pytest
from prometheus_client.metrics_core import GaugeMetricFamily

from hicache_exporter.registry import Registry, UnknownCollectorError


class One:
    def __init__(self, name, value, fails=False):
        self.name, self.value, self.fails = name, value, fails

    def collect(self):
        family = GaugeMetricFamily(self.name, "help", labels=["of"])
        family.add_metric([str(self.value)], self.value)
        yield family
        if self.fails:
            raise RuntimeError("broken on purpose")


def values(families, name):
    return {
        sample.labels["of"]: sample.value for family in families if family.name == name for sample in family.samples
    }


def success(families):
    (family,) = (family for family in families if family.name == "hicache_collector_success")
    return {sample.labels["collector"]: sample.value for sample in family.samples}


def test_two_collectors_may_fill_one_family():
    registry = Registry()
    registry.register("a", One("shared", 1))
    registry.register("b", One("shared", 2))
    assert values(registry.collect(), "shared") == {"1": 1, "2": 2}


def test_a_failing_collector_gives_nothing_not_even_what_it_had():
    registry = Registry()
    registry.register("a", One("of_a", 1, fails=True))
    registry.register("b", One("of_b", 2))
    families = registry.collect()
    assert (values(families, "of_a"), values(families, "of_b")) == ({}, {"2": 2})
    assert success(families) == {"a": 0, "b": 1}


def test_a_failure_is_logged_once_until_it_is_over(caplog):
    registry = Registry()
    one = One("of_a", 1, fails=True)
    registry.register("a", one)
    registry.collect()
    registry.collect()
    assert len(caplog.records) == 1
    one.fails = False
    assert success(registry.collect()) == {"a": 1}
    one.fails = True
    registry.collect()
    assert len(caplog.records) == 2


def test_the_duration_of_each_is_told():
    ticks = iter([0.0, 0.25])
    registry = Registry(clock=lambda: next(ticks))
    registry.register("a", One("of_a", 1))
    (family,) = (f for f in registry.collect() if f.name == "hicache_collector_duration_seconds")
    assert [sample.value for sample in family.samples] == [0.25]


def test_only_those_that_were_asked_for_run():
    registry = Registry()
    registry.register("a", One("of_a", 1))
    registry.register("b", One("of_b", 2))
    assert success(registry.collect(["b"])) == {"b": 1}
    with pytest.raises(UnknownCollectorError, match="no collector c; there are a, b"):
        registry.collect(["c"])


def test_a_name_is_taken_once():
    registry = Registry()
    registry.register("a", One("of_a", 1))
    with pytest.raises(ValueError, match="registered already"):
        registry.register("a", One("of_a", 1))

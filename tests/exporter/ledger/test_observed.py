"""A histogram, and the exemplars on it."""

from hicache_exporter.core.observed import Histogram, Sampled


def test_an_observation_that_was_counted_can_be_marked_later():
    observed = Histogram((1.0, 2.0))
    observed.observe(1.5)
    observed.mark(Sampled(1.5, "abc", 10.0))
    assert observed.exemplars == {1: Sampled(1.5, "abc", 10.0)}
    assert observed.count == 1


def test_one_that_was_not_counted_is_not_marked():
    observed = Histogram((1.0, 2.0))
    observed.observe(0.5)
    observed.mark(Sampled(1.5, "abc", 10.0))
    assert observed.exemplars == {}

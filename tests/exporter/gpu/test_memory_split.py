"""Used GPU memory explained by the engine's own account, or left unexplained."""

from hicache_exporter.core.memory_split import EngineMemory, split

GIB = 1 << 30


def test_the_parts_add_up_to_the_used_memory():
    parts = split(100 * GIB, [EngineMemory(reserved=95 * GIB, weights=15 * GIB, kv_pool=70 * GIB)])
    assert parts == {"weights": 15 * GIB, "kv_pool": 70 * GIB, "allocator_reserved": 10 * GIB, "other": 5 * GIB}
    assert sum(parts.values()) == 100 * GIB


def test_two_engines_on_one_gpu_add_up():
    one = EngineMemory(reserved=40 * GIB, weights=10 * GIB, kv_pool=25 * GIB)
    assert split(90 * GIB, [one, one])["other"] == 10 * GIB


def test_a_missing_part_takes_the_remainders_with_it():
    assert split(100, [EngineMemory(reserved=90, weights=None, kv_pool=50)]) == {"kv_pool": 50}
    assert split(100, [EngineMemory(reserved=None, weights=10, kv_pool=50)]) == {"weights": 10, "kv_pool": 50}
    both = [EngineMemory(90, 10, 50), EngineMemory(5, None, 1)]
    assert split(100, both) == {"kv_pool": 51}


def test_without_the_gpus_own_figure_there_is_no_other():
    assert "other" not in split(None, [EngineMemory(90, 10, 50)])


def test_without_engines_nothing_is_explained():
    assert split(100, []) == {}


def test_parts_that_do_not_fit_into_one_another_give_no_remainder():
    assert split(100, [EngineMemory(reserved=40, weights=10, kv_pool=50)]) == {"weights": 10, "kv_pool": 50}
    assert "other" not in split(80, [EngineMemory(reserved=90, weights=10, kv_pool=50)])

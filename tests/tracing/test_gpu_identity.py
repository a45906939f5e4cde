"""Which GPU the process is on, for those who watch it from outside."""

import sys
from types import SimpleNamespace

import pytest

from hicache_tracing import identity


def torch(*, initialized=True, current=1, **properties):
    devices = [SimpleNamespace(), SimpleNamespace(**properties)]
    return SimpleNamespace(
        cuda=SimpleNamespace(
            is_initialized=lambda: initialized,
            current_device=lambda: current,
            get_device_properties=lambda index: devices[index],
        )
    )


def test_it_is_the_uuid_of_the_current_device_as_nvml_writes_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch(uuid="1b2c-3d"))
    assert identity.gpu_uuid() == "GPU-1b2c-3d"


@pytest.mark.parametrize("module", [None, SimpleNamespace(), torch(initialized=False, uuid="1b2c"), torch()])
def test_without_a_device_or_with_a_torch_that_does_not_tell_it_is_unknown(monkeypatch, module):
    monkeypatch.setitem(sys.modules, "torch", module)
    assert identity.gpu_uuid() is None

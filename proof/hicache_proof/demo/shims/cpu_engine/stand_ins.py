"""Stand-ins for packages that SGLang imports whatever the device, and that are of no use, or not to be had, on a CPU.

A really installed package always wins: the finder comes last.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType, SimpleNamespace

PACKAGES = ("torchvision", "triton", "sgl_kernel")


class StandIn(ModuleType):
    """A module in which every name exists: a capitalised one is an empty class, any other a further stand-in.

    Called, it is a decorator that changes nothing; a kernel, when called, says that it has no CPU form.
    """

    def __init__(self, name):
        super().__init__(name)
        self.__path__ = []
        self.__file__ = __file__

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].isupper():
            value = type(name, (_Anything,), {"__module__": self.__name__})
        else:
            value = importlib.import_module(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value

    def __call__(self, *args, **kwargs):
        if self.__name__.startswith("sgl_kernel"):
            raise NotImplementedError(f"{self.__name__} is a GPU kernel; this machine has no GPU")
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]
        return lambda function: function

    def __bool__(self):
        return False


class _Anything:
    def __init__(self, *args, **kwargs):
        self.__dict__.update(kwargs)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__()


INTERPOLATIONS = ("NEAREST", "NEAREST_EXACT", "BILINEAR", "BICUBIC", "LANCZOS", "BOX", "HAMMING")

# What is used while modules are being imported, and so needs a value.
VALUES = {
    "torchvision": {"__version__": "0"},
    "torchvision.transforms": {"InterpolationMode": SimpleNamespace(**{name: name for name in INTERPOLATIONS})},
    "torchvision.transforms.functional": {
        "InterpolationMode": SimpleNamespace(**{name: name for name in INTERPOLATIONS})
    },
    "triton": {
        "__version__": "3.0.0",
        "cdiv": lambda a, b: -(-a // b),
        "next_power_of_2": lambda n: 1 << max(n - 1, 0).bit_length(),
    },
    "triton.language.core": {"TRITON_MAX_TENSOR_NUMEL": 1 << 20},
}


class _Loader(importlib.abc.Loader):
    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        vars(module).update(VALUES.get(module.__name__, {}))


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in PACKAGES:
            return None
        return importlib.machinery.ModuleSpec(name, _Loader(), is_package=True)


def install():
    sys.meta_path.append(_Finder())

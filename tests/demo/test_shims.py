"""What stands in for a GPU's packages. tests/engine runs SGLang itself on it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hicache_proof.demo.spec import SHIMS


def python(code: str, *folders: Path, cpu: str = "1") -> str:
    """The output of a Python that starts with the shims."""
    environment = {
        "PYTHONPATH": os.pathsep.join(map(str, (SHIMS, *folders))),
        "SGLANG_USE_CPU_ENGINE": cpu,
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "code",
    [
        "import triton.language as tl; from triton.runtime.autotuner import Autotuner",
        "from torchvision.transforms import InterpolationMode; InterpolationMode.BICUBIC",
        "import triton\n@triton.jit\ndef kernel(): return 1\nassert kernel() == 1",
        "import triton\n@triton.autotune(configs=[triton.Config({'N': 1}, num_warps=4)], key=[])\ndef f(): pass",
        "import triton; assert triton.cdiv(7, 2) == 4 and triton.next_power_of_2(9) == 16",
        "from triton import Anything\nclass Ours(Anything): pass",
    ],
)
def test_a_missing_package_can_be_imported_and_decorates(code: str) -> None:
    python(code)


def test_a_missing_kernel_says_so_when_called() -> None:
    code = "from sgl_kernel import silu_and_mul\ntry: silu_and_mul(1)\nexcept NotImplementedError as e: print(e)"
    assert "sgl_kernel.silu_and_mul is a GPU kernel" in python(code)


def test_an_installed_package_wins(tmp_path: Path) -> None:
    (tmp_path / "triton.py").write_text("real = True")
    assert python("import triton; print(triton.real)", tmp_path) == "True"


def test_nothing_happens_where_sglang_is_not_told_to_use_the_cpu() -> None:
    assert python("import importlib.util; print(importlib.util.find_spec('triton'))", cpu="") == "None"


def test_the_sitecustomize_that_is_hidden_still_runs_and_only_once(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs')")
    assert python("print('main')", tmp_path).split() == ["theirs", "main"]


def test_two_sitecustomize_that_hide_each_other_both_run(tmp_path: Path) -> None:
    import hicache_tracing

    site = Path(hicache_tracing.__file__).parent / "launch_site"
    (tmp_path / "sitecustomize.py").write_text("print('last')")
    assert python("import hicache_tracing; print('main')", site, site.parents[1], tmp_path).split() == ["last", "main"]


HOST_POOL = """
ALLOC_MEMORY_FUNCS = {}
class MHATokenToKVPoolHost:
    pin_memory = True
    def get_dummy_flat_data_page(self):
        return self.pin_memory
"""
CHECK = """
import sys
assert "sglang" not in sys.modules
from sglang.srt.mem_cache import memory_pool_host as host
assert not host.MHATokenToKVPoolHost().get_dummy_flat_data_page()
keys, values = ([0, 0, 0], [0, 0, 0])
class Rows(list):
    def __getitem__(self, rows): return [list.__getitem__(self, row) for row in rows]
    def __setitem__(self, rows, new): [list.__setitem__(self, row, value) for row, value in zip(rows, new)]
source, destination = Rows([1, 2, 3]), Rows([0, 0, 0])
host.transfer_kv_direct([source], [destination], [2, 0], [0, 1], page_size=1)
assert list(destination) == [3, 1, 0]
assert "cpu" in host.ALLOC_MEMORY_FUNCS
"""


def test_the_host_pool_is_adapted_when_the_engine_imports_it(tmp_path: Path) -> None:
    package = tmp_path / "sglang" / "srt" / "mem_cache"
    package.mkdir(parents=True)
    (package / "memory_pool_host.py").write_text(HOST_POOL)
    python(CHECK, tmp_path)


def test_events_have_a_time(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "cpu.py").write_text("class Event: pass\nclass Stream: pass\n")
    code = (
        "import time, torch.cpu; a = torch.cpu.Event(enable_timing=True); b = torch.cpu.Event();"
        "a.record(); time.sleep(0.01); b.record(); torch.cpu.Stream().synchronize(); print(a.elapsed_time(b))"
    )
    assert 10 <= float(python(code, tmp_path)) < 1000


@pytest.fixture
def paged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(SHIMS))
    return importlib.import_module("cpu_engine.paged")


class Tensor(np.ndarray):
    def new_tensor(self, values):
        return np.array(values)


def tensor(*values):
    return np.array(values).view(Tensor)


def test_slots_go_on_in_the_page_begun_and_then_in_new_pages(paged):
    out = tensor(*[-1] * 11)
    # pages of 4: the first request goes on at slot 6 of page 1, the second begins at its page's start
    paged.extend(tensor(2, 4), tensor(8, 9), tensor(5, 3), tensor(7, 9, 2), out, 2, 4, 1 << 20)
    assert out.tolist() == [6, 7, 28, 29, 30, 31, 36, 37, 38, 39, 8]


def test_a_decoded_token_takes_the_next_slot_or_a_new_page(paged):
    out = tensor(-1, -1, -1)
    paged.decode(tensor(4, 5, 10), tensor(6, 31, 12), tensor(8, 3), out, 4, 4)
    assert out.tolist() == [7, 32, 13]


def test_where_pages_run_out_it_ends_as_the_kernel_does_and_the_engine_counts_afterwards(paged):
    out = tensor(*[-1] * 6)
    paged.extend(tensor(0), tensor(6), tensor(-1), tensor(7), out, 1, 4)
    assert out.tolist()[:4] == [28, 29, 30, 31]


def test_only_an_allocator_that_has_such_kernels_is_adapted(paged):
    old, new = SimpleNamespace(alloc_decode_kernel=object()), SimpleNamespace()
    for module in (old, new):
        paged.adapt(module)
    assert callable(old.alloc_decode_kernel[(3,)])
    assert vars(new) == {}

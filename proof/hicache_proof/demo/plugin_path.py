"""Makes our plugin visible to an engine whose environment it is not installed in.

SGLang finds plugins by the entry points of the distributions on ``sys.path``. A folder on ``PYTHONPATH`` with a
``*.dist-info`` and the package is such a distribution, however this project itself was installed, and it brings no
other package of our environment with it.
"""

from __future__ import annotations

import importlib.util
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

DISTRIBUTION = "hicache-witness"
PACKAGE = "hicache_tracing"
GROUP = "sglang.srt.plugins"


class NotInstalledError(Exception):
    """Raised where the project runs from a checkout that was never installed, and so has no entry point."""


def make_plugin_folder(folder: Path) -> Path:
    """Fill ``folder``, which must not exist, and return it. Raises NotInstalledError."""
    try:
        ours = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        raise NotInstalledError(
            f"{DISTRIBUTION} is not installed here: run `pip install -e .` in its checkout"
        ) from None
    folder.mkdir(parents=True)
    info = folder / f"{DISTRIBUTION.replace('-', '_')}-{ours.version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {ours.version}\n")
    (info / "entry_points.txt").write_text(_entry_points(ours))
    (folder / PACKAGE).symlink_to(_package_folder(), target_is_directory=True)
    return folder


def _entry_points(ours: Distribution) -> str:
    points = ours.entry_points.select(group=GROUP)
    if not points:
        raise NotInstalledError(f"the installed {DISTRIBUTION} has no plugin for SGLang: install it again")
    return "\n".join([f"[{GROUP}]", *(f"{point.name} = {point.value}" for point in points), ""])


def _package_folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise NotInstalledError(f"the package {PACKAGE} is not installed here")
    return Path(spec.origin).parent

"""Makes our plugin visible to an engine whose environment it is not installed in.

SGLang finds plugins by the entry points of the distributions on ``sys.path``. A folder on ``PYTHONPATH`` with a
``*.dist-info`` and the package is such a distribution, however this project itself was installed, and it brings no
other package of our environment with it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from hicache_proof.demo.errors import NotInstalledError

DISTRIBUTION = "hicache-witness"
PACKAGE = "hicache_tracing"
LAUNCH_SITE = "launch_site"
"""Folder in the package whose sitecustomize attaches the plugin where SGLang has no plugin loader."""
GROUP = "sglang.srt.plugins"


def make_plugin_paths(folder: Path, plugin_loader: bool) -> tuple[Path, ...]:
    """Fill ``folder``, which must not exist; gives the folders for the engine's PYTHONPATH. Raises NotInstalledError.

    ``plugin_loader``: whether this SGLang loads plugins by entry point; else ours attaches itself at start-up.
    """
    try:
        ours = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        raise NotInstalledError(f"{DISTRIBUTION} is not installed: run `pip install -e .` in its checkout") from None
    write_plugin(folder, ours.version, _entry_points(ours))
    return (folder,) if plugin_loader else (folder, folder / PACKAGE / LAUNCH_SITE)


def write_plugin(folder: Path, version: str, points: Mapping[str, str]) -> None:
    """The distribution: ``points`` are SGLang's entry points, by name. Raises NotInstalledError without the package."""
    info = folder / f"{DISTRIBUTION.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {version}\n")
    entries = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{entries}")
    (folder / PACKAGE).symlink_to(_package_folder(), target_is_directory=True)


def _entry_points(ours: Distribution) -> dict[str, str]:
    points = ours.entry_points.select(group=GROUP)
    if not points:
        raise NotInstalledError(f"the installed {DISTRIBUTION} has no plugin for SGLang: install it again")
    return {point.name: point.value for point in points}


def _package_folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise NotInstalledError(f"the package {PACKAGE} is not installed here")
    return Path(spec.origin).parent

"""Makes our plugin visible to an engine whose environment it is not installed in.

SGLang finds plugins by the entry points of the distributions on ``sys.path``. A folder on ``PYTHONPATH`` with a
``*.dist-info`` and the package is such a distribution, however this project itself was installed, and it brings no
other package of our environment with it.
"""

from __future__ import annotations

import importlib.util
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
    info = folder / f"{DISTRIBUTION.replace('-', '_')}-{ours.version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {ours.version}\n")
    (info / "entry_points.txt").write_text(_entry_points(ours))
    (folder / PACKAGE).symlink_to(_package_folder(), target_is_directory=True)
    return (folder,) if plugin_loader else (folder, folder / PACKAGE / LAUNCH_SITE)


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

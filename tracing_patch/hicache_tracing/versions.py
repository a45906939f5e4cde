"""Which release of what is installed here."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def version_of(distribution: str) -> str:
    """``unknown`` where it is not installed but merely on the path."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"

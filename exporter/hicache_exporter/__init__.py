"""The sidecar: reads the flight recorder, the engine's metrics, GPU and host; serves metrics, spans and proofs."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("hicache-witness")
except PackageNotFoundError:  # run from a checkout that was not installed
    __version__ = "unknown"

"""The sidecar: reads the flight recorder, the engine's metrics, GPU and host; serves metrics, spans and proofs."""

__version__ = "0.1.0"

"""``hicache-witness replay``: the sidecar on a recorded session; all behind it can be tried without an engine."""

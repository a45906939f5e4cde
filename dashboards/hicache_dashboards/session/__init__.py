"""A recorded session: what a sidecar served over some minutes, kept in one file and served again."""

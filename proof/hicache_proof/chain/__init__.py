"""The stage chain: from the flags of an engine to the benefit of an L2 read, and the first link that is broken."""

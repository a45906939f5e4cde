"""``hicache-witness storage``: L3 attached to a running engine or detached from it, and whether all of it agrees."""

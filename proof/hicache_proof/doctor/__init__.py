"""``hicache-witness doctor``: looks at an engine from outside and says what is wrong with its HiCache, and why."""

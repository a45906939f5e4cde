"""Write the schema that is published with the package."""

from __future__ import annotations

from hicache_proof.schema import PUBLISHED, generate

PUBLISHED.write_bytes(generate())

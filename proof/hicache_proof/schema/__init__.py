"""The published JSON Schema of the certificate, generated from its types: ``python -m hicache_proof.schema``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from hicache_proof.certificate import Certificate

PUBLISHED = Path(__file__).parent / "certificate-v1.schema.json"


def generate() -> bytes:
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hicache-witness certificate, version 1",
        **msgspec.json.schema(Certificate),
    }
    return msgspec.json.format(msgspec.json.encode(schema, order="deterministic"), indent=2) + b"\n"

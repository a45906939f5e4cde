"""Where something answers that is no SGLang server: one sentence for the lab, the doctor and storage."""

from __future__ import annotations


def no_sglang(url: str, why: str) -> str:
    return (
        f"{url} is no SGLang server: {why}; give --engine the address of the server itself, "
        "not that of a router, a proxy or the sidecar"
    )

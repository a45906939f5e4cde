"""The text that a scraper asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from prometheus_client import exposition
from prometheus_client.openmetrics import exposition as openmetrics


def choose(accept: str) -> tuple[Callable[[Any], bytes], str]:
    """Encoder and content type for an Accept header.

    prometheus_client looks at every letter of a name that may have to be escaped. All names here are plain ones
    (``names``; a test holds it), which every scheme leaves as they are: said beforehand, a third of the work is gone.
    """
    encode, content_type = exposition.choose_encoder(accept)
    if isinstance(encode, partial) and encode.keywords.get("escaping") == openmetrics.UNDERSCORES:
        encode = partial(encode.func, **{**encode.keywords, "escaping": openmetrics.ALLOWUTF8})
    return encode, content_type

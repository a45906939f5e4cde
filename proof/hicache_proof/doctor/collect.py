"""Asks the engine, the sidecar and the ring folder; what does not answer is a fact of the chain, not an error."""

from __future__ import annotations

from typing import NamedTuple

import httpx
from msgspec.structs import replace

from hicache_exporter.core.engine_info import EngineInfo, read_server_info
from hicache_proof.chain.facts import ChainInput, Configuration, Counted, Recorded
from hicache_proof.direct_http import direct_client
from hicache_proof.doctor import engine, sidecar
from hicache_proof.doctor.rings import NoRecorderError, recorders
from hicache_proof.lab.errors import CannotRunError
from hicache_proof.stranger import no_sglang

INFO_PATH, OLD_INFO_PATH = "/server_info", "/get_server_info"


class Sources(NamedTuple):
    engine: str
    """URL without a path."""
    sidecar: str
    """URL."""
    ring_folder: str


class _SilentError(Exception):
    """A source gave nothing; says why, without anything of its answer."""


class _UnreachableError(_SilentError):
    """Nobody answers."""


class _RefusedError(_SilentError):
    """It wants a key."""


class _NotFoundError(_SilentError):
    """It has no such page."""


def collect(sources: Sources, http: httpx.Client) -> ChainInput:
    """``http`` carries the engine's key, which the sidecar must not see. Raises CannotRunError for no SGLang there."""
    configuration, info, no_configuration = _configuration(sources, http)
    counted, no_counts = _counted(sources, http, info)
    if no_configuration is not None and no_counts is not None:
        raise CannotRunError(_nobody(sources.engine, no_configuration))
    recorded, no_records = _recorded(sources, info)
    return ChainInput(
        configuration=configuration,
        configuration_missing=_words(no_configuration),
        counted=counted,
        counted_missing=_words(no_counts),
        recorded=recorded,
        recorded_missing=no_records,
    )


def _nobody(engine_url: str, why: Exception) -> str:
    if isinstance(why, _UnreachableError):
        return f"{why}; is the engine running there?"
    if isinstance(why, _RefusedError):
        return str(why)
    if isinstance(why, ValueError):
        return no_sglang(engine_url, f"what {INFO_PATH} answers is not SGLang's: {why}")
    return no_sglang(engine_url, str(why).removeprefix(engine_url))


def _words(error: Exception | None) -> str | None:
    return None if error is None else str(error)


def _configuration(
    sources: Sources, http: httpx.Client
) -> tuple[Configuration | None, EngineInfo | None, Exception | None]:
    try:
        body = _information(http, sources.engine)
        info = read_server_info(body)
        return engine.configuration(body, info), info, None
    except (_SilentError, ValueError) as error:
        return None, None, error


def _counted(sources: Sources, http: httpx.Client, info: EngineInfo | None) -> tuple[Counted | None, Exception | None]:
    try:
        return engine.counted(_get(http, sources.engine + "/metrics"), info), None
    except (_SilentError, ValueError) as error:
        return None, error


def _recorded(sources: Sources, info: EngineInfo | None) -> tuple[Recorded | None, str | None]:
    expected = info.shape.local_ranks if info is not None and info.shape is not None else None
    try:
        return _by_sidecar(sources, expected), None
    except _SilentError as error:
        why = str(error)
    try:
        return replace(recorders(sources.ring_folder, sources.engine, expected), no_sidecar=why), None
    except NoRecorderError as error:
        return None, f"{why}; {error}"


def _by_sidecar(sources: Sources, expected: int | None) -> Recorded:
    """The recorders with their counts. Raises _SilentError."""
    try:
        with direct_client(None, answer_seconds=10, connect_seconds=10) as http:
            body = _get(http, sources.sidecar.rstrip("/") + "/metrics")
        found = sidecar.recorded(body, sources.engine, expected)
    except (_SilentError, ValueError) as error:
        raise _SilentError(f"the sidecar: {error}") from None
    if found is None:
        raise _SilentError(f"the sidecar at {sources.sidecar} follows no recorder of this engine")
    return found


def _information(http: httpx.Client, url: str) -> bytes:
    """By its path, or by that of older engines."""
    try:
        return _get(http, url + INFO_PATH)
    except _NotFoundError as absent:
        try:
            return _get(http, url + OLD_INFO_PATH)
        except _NotFoundError:
            raise absent from None


def _get(http: httpx.Client, url: str) -> bytes:
    try:
        answer = http.get(url)
    except httpx.HTTPError as error:
        raise _UnreachableError(f"{url} does not answer ({error or type(error).__name__})") from None
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise _RefusedError(f"{url} wants a key ({answer.status_code}): give it with --api-key-file")
    if not answer.is_success:
        absent = answer.status_code == httpx.codes.NOT_FOUND
        raise (_NotFoundError if absent else _SilentError)(f"{url} answers {answer.status_code}")
    return answer.content

"""What the sidecar knows of one request: asked over HTTP, waited for by the sidecar itself."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from hicache_exporter import names
from hicache_proof.direct_http import text_of
from hicache_proof.evidence import Evidence
from hicache_proof.lab.machine import samples
from hicache_proof.verdict import Judgement

PATIENT_WAIT = 12.0
"""Seconds; the sidecar gives a final verdict after ten at the latest."""
WAIT = 3.0
SHORT_WAIT = 1.0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    at: str | None = None
    """When the request was admitted, RFC 3339, by the engine's machine."""


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    evidence: Evidence
    judgement: Judgement
    events: tuple[dict[str, Any], ...] = ()
    summary: Summary = Summary()
    final: bool = True
    """False: more may be told of the request, or the records that would tell it are lost."""


class _Followed(msgspec.Struct, frozen=True, kw_only=True):
    """An engine in /state."""

    engine: str
    recorders: tuple[dict[str, Any], ...] = ()
    capacity_tokens: dict[str, float | None] = {}


class _State(msgspec.Struct, frozen=True, kw_only=True):
    engines: tuple[_Followed, ...]


class NoProof(msgspec.Struct, frozen=True, kw_only=True):
    """The sidecar has nothing on this request, and why: itself a fact of the run."""

    why: str


class SidecarClient:
    """A sidecar that is not there is not an error of the run: it leaves the recorder's witnesses absent."""

    def __init__(self, url: str, http: httpx.Client) -> None:
        self.url = url.rstrip("/")
        self._http = http
        self.unreachable = self._why_unreachable()
        self._disappointed = False
        self._knows_any = False

    def proof(self, request_id: str, *, patient: bool) -> Proof | NoProof:
        """The final one if it comes in time. ``patient``: this request decides, so give it all the time it may take."""
        if self.unreachable:
            return NoProof(why=self.unreachable)
        found = self._ask(request_id, self._wait(patient))
        self._knows_any = self._knows_any or isinstance(found, Proof)
        self._disappointed = isinstance(found, NoProof) or not found.final
        return found

    def _wait(self, patient: bool) -> float:
        """Seconds. A sidecar that has known no request so far reads no recorder: there is little to wait for."""
        if patient and self._knows_any:
            return PATIENT_WAIT
        return SHORT_WAIT if self._disappointed else WAIT

    def _ask(self, request_id: str, wait_seconds: float) -> Proof | NoProof:
        try:
            answer = self._http.get(
                f"{self.url}/proofs/{request_id}", params={"wait": wait_seconds}, timeout=wait_seconds + 10
            )
        except httpx.HTTPError as error:
            return NoProof(why=f"the sidecar does not answer ({error or type(error).__name__})")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return NoProof(why=f"the sidecar does not know the request: {_error(answer)}")
        if not answer.is_success:
            return NoProof(why=f"the sidecar answers {answer.status_code}")
        try:
            return msgspec.json.decode(answer.content, type=Proof)
        except msgspec.DecodeError as error:
            return NoProof(why=f"the sidecar's answer is of another version: {error}")

    def backed_up_tokens(self, engine_url: str) -> float | None:
        """Tokens of finished backups of that engine since the sidecar follows it; None: it follows no such engine."""
        wanted = {("engine", urlsplit(engine_url).netloc), ("direction", "device_to_host")}
        found = (
            sample.value
            for sample in samples(self.metrics())
            if sample.name == names.TRANSFER_TOKENS.series and sample.labels.items() >= wanted
        )
        return next(found, None)

    def host_tokens(self, engine_url: str) -> float | None:
        """Size of that engine's host pool, as its flight recorder's header has it."""
        wanted = urlsplit(engine_url).netloc
        return next((one.capacity_tokens.get("host") for one in self._state() or () if one.engine == wanted), None)

    def engines(self) -> tuple[str, ...] | None:
        """Engines whose flight recorder it reads, by address; None: it does not say."""
        found = self._state()
        return tuple(one.engine for one in found if one.recorders) if found is not None else None

    def _state(self) -> tuple[_Followed, ...] | None:
        try:
            return msgspec.json.decode(self._http.get(self.url + "/state").content, type=_State).engines
        except (httpx.HTTPError, ValueError, RecursionError):
            return None

    def metrics(self) -> bytes | None:
        if self.unreachable:
            return None
        try:
            answer = self._http.get(self.url + "/metrics")
        except httpx.HTTPError:
            return None
        return answer.content if answer.is_success else None

    def gone(self) -> str | None:
        """Why it can't be asked at the end of a run; it may have ended in the middle of it."""
        if self.unreachable:
            return self.unreachable
        why = self._why_unreachable()
        return f"{why} (it answered when the run began)" if why else None

    def _why_unreachable(self) -> str | None:
        try:
            answer = self._http.get(self.url + "/-/healthy")
        except httpx.HTTPError:
            return f"no sidecar at {self.url}"
        return None if answer.is_success else f"the sidecar at {self.url} answers {answer.status_code}"


def _error(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        return text_of(answer)[:200]

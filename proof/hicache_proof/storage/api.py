"""The engine's HTTP answers about its L3, and the two requests that change it."""

from __future__ import annotations

from typing import Any, NamedTuple

import httpx
import msgspec

from hicache_exporter.core import engine_families, engine_text
from hicache_exporter.core.engine_info import EngineInfo, read_server_info
from hicache_exporter.core.engine_view import view
from hicache_exporter.names import ENGINE_FINISHED_REQUESTS
from hicache_proof.direct_http import text_of
from hicache_proof.lab.errors import CannotRunError
from hicache_proof.storage.state import Frontend, Load, Replica
from hicache_proof.stranger import no_sglang

PATH = "/hicache/storage-backend"
REFUSED = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
ABSENT = (httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED)
NO_ADMIN_KEY = "requires admin API key"
"""In the engine's answer if it was started without one."""


class _States(msgspec.Struct, frozen=True, kw_only=True):
    """White list of /server_info beyond EngineInfo's: the answer holds API keys as well."""

    internal_states: tuple[Replica, ...] = ()


class _Loads(msgspec.Struct, frozen=True, kw_only=True):
    loads: tuple[Load, ...]


class _OldLoad(msgspec.Struct, frozen=True, kw_only=True):
    dp_rank: int | None = None
    num_reqs: int = 0
    num_waiting_reqs: int = 0


class Answer(NamedTuple):
    ok: bool
    says: str
    """Without the line that only repeats whether it worked."""


class StorageApi:
    """``http`` carries the engine's key, ``admin`` the administrator's. Every failure is a CannotRunError."""

    def __init__(self, url: str, http: httpx.Client, admin: httpx.Client) -> None:
        self.url = url
        self._http = http
        self._admin = admin
        self.info, _ = self._describe()

    def replicas(self) -> tuple[Replica, ...]:
        """What the schedulers have now."""
        return self._describe()[1]

    def loads(self) -> tuple[Load, ...]:
        """Some installations of older releases have /v1/loads only to fail in it."""
        answer = self._send(self._http, "GET", "/v1/loads?include=core,queues")
        try:
            if answer.is_success:
                return msgspec.json.decode(answer.content, type=_Loads).loads
            old = msgspec.json.decode(self._get("/get_load").content, type=tuple[_OldLoad, ...])
        except ValueError as error:
            raise CannotRunError(f"{self.url} does not tell its load as SGLang does ({error})") from None
        return tuple(
            Load(
                dp_rank=load.dp_rank or 0,
                num_running_reqs=load.num_reqs - load.num_waiting_reqs,
                num_waiting_reqs=load.num_waiting_reqs,
            )
            for load in old
        )

    def finished(self) -> float | None:
        """Requests that ended since the start; None: no metrics."""
        answer = self._send(self._http, "GET", "/metrics")
        if not answer.is_success:
            return None
        try:
            seen = view(engine_text.read(answer.content, engine_families.WANTED), self.info)
        except ValueError:
            return None
        return sum(value.values[0] for value in seen.values if value.family is ENGINE_FINISHED_REQUESTS)

    def frontend(self) -> Frontend:
        answer = self._ask_admin("GET")
        if not answer.is_success:
            raise CannotRunError(f"{self.url}{PATH} answers {answer.status_code}: {_text(answer)}")
        try:
            return msgspec.json.decode(answer.content, type=Frontend)
        except ValueError as error:
            raise CannotRunError(f"{self.url}{PATH} does not answer as SGLang does ({error})") from None

    def attach(self, wanted: dict[str, str]) -> Answer:
        return _answered(self._ask_admin("PUT", json=wanted))

    def detach(self) -> Answer:
        return _answered(self._ask_admin("DELETE"))

    def _describe(self) -> tuple[EngineInfo, tuple[Replica, ...]]:
        answer = self._send(self._http, "GET", "/server_info")
        if answer.status_code == httpx.codes.NOT_FOUND:
            answer = self._send(self._http, "GET", "/get_server_info")
        self._check_key(answer, "/server_info")
        if not answer.is_success:
            raise CannotRunError(no_sglang(self.url, f"/server_info answers {answer.status_code}"))
        try:
            info = read_server_info(answer.content)
            return info, msgspec.json.decode(answer.content, type=_States).internal_states
        except ValueError as error:
            raise CannotRunError(no_sglang(self.url, f"what /server_info answers is not SGLang's: {error}")) from None

    def _ask_admin(self, method: str, **content: Any) -> httpx.Response:
        answer = self._send(self._admin, method, PATH, **content)
        if answer.status_code in ABSENT:
            raise CannotRunError(
                f"SGLang {self.info.version} at {self.url} can't attach or detach L3 while it runs; "
                "releases from 0.5.9 on can: else restart it with --hicache-storage-backend"
            )
        if answer.status_code in REFUSED:
            raise CannotRunError(
                f"{self.url} does not take this key ({answer.status_code}): give the one that it was started with "
                "(--admin-api-key) with --admin-key-file"
            )
        if NO_ADMIN_KEY in text_of(answer):
            raise CannotRunError(
                f"{self.url} was started without --admin-api-key, and lets nobody attach or detach L3; restart it "
                "with one"
            )
        return answer

    def _get(self, path: str) -> httpx.Response:
        answer = self._send(self._http, "GET", path)
        self._check_key(answer, path)
        if not answer.is_success:
            raise CannotRunError(f"{self.url}{path} answers {answer.status_code}; is it SGLang 0.5.9 or later?")
        return answer

    def _check_key(self, answer: httpx.Response, path: str) -> None:
        if answer.status_code in REFUSED:
            raise CannotRunError(f"{self.url}{path} wants a key ({answer.status_code}): give it with --api-key-file")

    def _send(self, http: httpx.Client, method: str, path: str, **content: Any) -> httpx.Response:
        try:
            # no connection is kept: a busy server may close it just when the next request is sent
            return http.request(method, self.url + path, headers={"Connection": "close"}, **content)
        except httpx.HTTPError as error:
            raise CannotRunError(
                f"{self.url} does not answer ({error or type(error).__name__}); is the engine running there?"
            ) from None


def _answered(answer: httpx.Response) -> Answer:
    lines = [line for line in text_of(answer).splitlines() if line.strip()]
    return Answer(answer.is_success, " ".join(lines[1:] or lines)[:1000])


def _text(answer: httpx.Response) -> str:
    return " ".join(text_of(answer).split())[:300]

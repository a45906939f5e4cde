"""The lab's view of an engine over HTTP: ask one prompt, read its counters, wait until they have moved."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
import msgspec

from hicache_exporter.core.engine_info import EngineInfo
from hicache_proof.direct_http import text_of
from hicache_proof.lab import engine, replica, reply
from hicache_proof.lab.engine import EngineFacts, Reading
from hicache_proof.lab.errors import CannotRunError
from hicache_proof.lab.reply import Reply
from hicache_proof.stranger import no_sglang

_KEY_NEEDED = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
PAUSE_SECONDS = 0.05
"""Between two looks at a counter: a scrape of SGLang's multiprocess registry takes some milliseconds."""


class _Tokens(msgspec.Struct):
    """Answer of /tokenize."""

    tokens: list[int]


class EngineClient:
    """``http`` carries headers and timeouts; every failure becomes a CannotRunError that names the address.

    ``admin``: headers in place of those for what an engine with an admin key keeps for its administrator.
    ``dp_rank``: the data-parallel replica to ask, where there are several; None: the first.
    """

    def __init__(
        self, url: str, http: httpx.Client, admin: Mapping[str, str] | None = None, dp_rank: int | None = None
    ) -> None:
        self.url = url.rstrip("/")
        self._http = http
        self._admin = dict(admin or {})
        facts, self._info = self._describe()
        self.facts = msgspec.structs.replace(facts, dp_rank=replica.chosen(facts, dp_rank))
        self.route = {} if self.facts.dp_rank is None else {self._route_field(): self.facts.dp_rank}
        """What is added to each request, so that it goes to that replica."""

    def read(self) -> Reading:
        answer = self._get("/metrics")
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise CannotRunError(f"{self.url} serves no /metrics; start the engine with --enable-metrics")
        try:
            return engine.read(answer.content, self._info, time.monotonic_ns(), self.facts.dp_rank)
        except ValueError as error:
            raise CannotRunError(f"{self.url}/metrics can't be read: {error}") from None

    def until(self, satisfied: Callable[[Reading], bool], seconds: float) -> tuple[Reading, bool]:
        """The first reading that satisfies, or the last one before the deadline and False."""
        deadline = time.monotonic() + seconds
        while True:
            reading = self.read()
            if satisfied(reading):
                return reading, True
            if time.monotonic() >= deadline:
                return reading, False
            time.sleep(PAUSE_SECONDS)

    def tokens_of(self, text: str) -> list[int]:
        answer = self._send(
            "POST", "/tokenize", json={"model": self.facts.model, "prompt": text, "add_special_tokens": False}
        )
        if not answer.is_success:
            raise CannotRunError(
                f"{self.url}/tokenize answers {answer.status_code}, so the lab can't learn the model's tokens; "
                "give a range of token ids with --token-ids"
            )
        try:
            return msgspec.json.decode(answer.content, type=_Tokens).tokens
        except ValueError as error:
            raise CannotRunError(f"{self.url}/tokenize does not answer as SGLang does ({error})") from None

    def generate(self, prompt: Sequence[int], output_tokens: int, request_id: str) -> Reply:
        """One greedy answer, streamed; the first token is timed when it arrives here."""
        body = {
            "rid": request_id,
            "input_ids": list(prompt),
            "stream": True,
            "return_logprob": True,
            "sampling_params": {"temperature": 0, "max_new_tokens": output_tokens, "ignore_eos": True, "n": 1},
            **self.route,
        }
        first_ns, last, sent_ns = None, None, time.monotonic_ns()
        try:
            with self._http.stream("POST", self.url + "/generate", json=body) as response:
                if not response.is_success:
                    raise CannotRunError(f"{self.url}/generate answers {response.status_code}: {_text(response)}")
                for event in _events(response):
                    if first_ns is None:
                        first_ns = time.monotonic_ns()
                    last = event
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None
        except (ValueError, RecursionError) as error:
            raise self._strange_answer(error) from None
        if last is None or first_ns is None or "error" in last:
            raise CannotRunError(f"{self.url}/generate gave no answer: {(last or {}).get('error', 'an empty stream')}")
        done_ns = time.monotonic_ns()
        try:
            return reply.parse(request_id, last, sent_ns=sent_ns, first_token_ns=first_ns, done_ns=done_ns)
        except ValueError as error:
            raise self._strange_answer(error) from None

    def flush(self, seconds: float) -> None:
        """Empties the cache. SGLang refuses while requests run or backups are pending, so it is asked again."""
        deadline = time.monotonic() + seconds
        while True:
            answer = self._send("POST", "/flush_cache", headers=self._admin)
            if answer.is_success:
                return
            if answer.status_code in _KEY_NEEDED:
                raise CannotRunError(
                    f"{self.url} keeps its flush for its administrator ({answer.status_code}); give the key that "
                    "it was started with (--admin-api-key) with --admin-key-file"
                )
            if time.monotonic() >= deadline:
                raise CannotRunError(f"{self.url} would not flush its cache for {seconds:.0f} s: {_text(answer)}")
            time.sleep(PAUSE_SECONDS)

    def _describe(self) -> tuple[EngineFacts, EngineInfo]:
        answer = self._get("/server_info")
        if answer.status_code == httpx.codes.NOT_FOUND:
            answer = self._get("/get_server_info")
        if answer.status_code in _KEY_NEEDED:
            raise CannotRunError(f"{self.url} wants its API key ({answer.status_code}); give it with --api-key-file")
        if not answer.is_success:
            raise self._stranger(f"/server_info answers {answer.status_code} {answer.reason_phrase}")
        try:
            return engine.describe(self.url, answer.content)
        except ValueError as error:
            kind = answer.headers.get("content-type", "something").partition(";")[0]
            raise self._stranger(f"what /server_info answers ({kind}) is not SGLang's: {error}") from None

    def _route_field(self) -> str:
        answer = self._get("/openapi.json")
        return replica.field(answer.content if answer.is_success else None, self.url)

    def _stranger(self, why: str) -> CannotRunError:
        return CannotRunError(no_sglang(self.url, why))

    def _strange_answer(self, error: Exception) -> CannotRunError:
        return CannotRunError(f"{self.url}/generate does not answer as SGLang does ({error})")

    def _get(self, path: str) -> httpx.Response:
        return self._send("GET", path)

    def _send(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        try:
            return self._http.request(method, self.url + path, **kwargs)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: httpx.HTTPError) -> CannotRunError:
        return CannotRunError(f"{self.url} does not answer ({error or type(error).__name__}); is the engine running?")


def _events(response: httpx.Response) -> Any:
    for line in response.iter_lines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def _text(response: httpx.Response) -> str:
    response.read()
    return " ".join(text_of(response).split())[:300]

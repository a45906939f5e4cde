"""An engine with two tiers of pages, as far as a client can tell it from SGLang, and its sidecar."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from hicache_proof import evidence as seen
from hicache_proof.verdict import judge

BYTES_PER_TOKEN = 512
THRESHOLD = 10
PREFETCH_THRESHOLD = 256


@dataclass
class FakeEngine:
    """Attributes before the first request are its launch flags, and its faults."""

    device: int = 1024
    host: int = 4096
    page: int = 1
    chunk: int = 512
    hicache: bool = True
    policy: str = "write_through"
    eviction: str = "lru"
    context: int = 994
    dp: int = 1
    """Replicas. What the caches hold is that of the one asked; the others say that theirs are full."""
    route_fields: tuple[str, ...] = ("routed_dp_rank", "data_parallel_rank")
    """Of a request; another one is ignored, and the replicas take turns."""
    describes_api: bool = True
    tells_replica: bool = True
    storage: str | None = None
    prefetch: str = "wait_complete"
    """``best_effort`` here gives a prefetch up before anything has come."""
    loses_storage: bool = False
    """Counts what it writes to storage as written, and finds none of it again."""
    prefetches_unseen: bool = False
    """Reads from storage, but the recorder saw no prefetch."""
    storage_writes: bool = True
    storage_busy: bool = False
    """Is never done with what it writes."""
    admin_key: str | None = None
    flushes_nothing: bool = False
    """Says that the cache was flushed, and keeps it."""
    follows: bool = False
    """Recalls a planted marker, as a trained model does."""
    forgets: bool = False
    """Not if the prefix came from L2."""
    accepts: float | None = None
    """Tokens a step of speculative decoding."""
    metrics: bool = True
    old: bool = False
    """As SGLang 0.5.9: no gauge of the host pool, no counter of backups."""
    tokenizer: bool = True
    split: str = "given"
    """``cached_tokens_details`` in replies: given, null or absent."""
    backs_up: bool = True
    loads_back_in_b: bool = False
    warm_in_a: bool = False
    """Finds half of a prompt in L1 that it has never seen."""
    caches: bool = True
    lazy: bool = False
    """Says that a transfer has finished only when the next request comes."""
    damages: bool = False
    serves_others: int = 0
    others_each_request: int = 0
    others_begin_after: int | None = None
    """From this reading of the metrics on somebody else's request is running."""
    others_in_between: bool = False
    """Somebody else's request has ended whenever the metrics are read, and none is ever seen running."""
    seconds_per_token: float = 20e-6
    seconds_per_read: float = 0.0
    threshold: int = THRESHOLD
    drifts: float = 0.0
    """What the log-probabilities of an L1 run differ from those of a cold one."""
    at_once: int = 0
    most_at_once: int = 0
    l1: OrderedDict[tuple[int, ...], None] = field(default_factory=OrderedDict)
    l2: OrderedDict[tuple[int, ...], None] = field(default_factory=OrderedDict)
    l3: set[tuple[int, ...]] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    log: dict[str, seen.Evidence] = field(default_factory=dict)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    interrupts_at: int | None = None
    """Presses Ctrl-C in the client's terminal while it answers this many-th request."""
    reads: int = 0
    flushes: int = 0
    address: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def asked(self) -> list[str]:
        return [body["rid"] for body in self.bodies]

    def generate(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        ids, rid = body["input_ids"], body["rid"]
        sent = time.monotonic_ns()
        with self.lock:
            self.bodies.append(body)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            if len(self.bodies) == self.interrupts_at:
                os.kill(os.getpid(), signal.SIGINT)
            device, host = self._match(ids) if self.caches else (0, 0)
            storage = self._prefetch(ids, device + host)
            if self.warm_in_a and rid.endswith("-A"):
                device = len(ids) // 2
            if self.loads_back_in_b and rid.endswith("-B"):
                device, host = 0, device
            self._store(ids, host + storage)
            self._count(len(ids), device, host, storage)
        cached = device + host + storage
        time.sleep(self.seconds_per_token * (len(ids) - cached) + (self.seconds_per_read if host else 0.0))
        with self.lock:
            self.at_once -= 1
        replica = self._replica(body)
        self.log[rid] = self._evidence(rid, len(ids), device, host, sent, time.monotonic_ns(), storage, replica)
        meta = {"prompt_tokens": len(ids), "cached_tokens": cached}
        if self.dp > 1 and self.tells_replica:
            meta["dp_rank"] = replica
        if self.accepts is not None:
            meta["spec_accept_length"] = self.accepts
        if self.split != "absent":
            details = {"device": device, "host": host} if cached and self.split == "given" else None
            if details and self.storage:
                details |= {"storage": storage, "storage_backend": "HiCacheFile"}
            meta["cached_tokens_details"] = details
        text = self._text(ids, host)
        damaged = self.damages and host > 0
        drift = (1.3 if damaged else 0.0) + (0.0 if cached else self.drifts)
        outputs = [(-0.5 - drift, (sum(ids) + i) % 97, None) for i in range(self._tokens(body))]
        for count in range(1, len(outputs) + 1):
            yield {
                "text": text,
                "output_ids": [token for _, token, _ in outputs[:count]],
                "meta_info": meta | {"output_token_logprobs": outputs[:count]},
            }

    def _replica(self, body: dict[str, Any]) -> int:
        return next((body[name] for name in self.route_fields if name in body), len(self.bodies) % self.dp)

    def openapi(self) -> dict[str, Any]:
        properties = {name: {"type": "integer"} for name in self.route_fields}
        return {"components": {"schemas": {"GenerateReqInput": {"properties": properties}}}}

    @staticmethod
    def _tokens(body: dict[str, Any]) -> int:
        return int(body["sampling_params"]["max_new_tokens"])

    def _match(self, ids: list[int]) -> tuple[int, int]:
        pages = self._pages(ids[:-1])
        device = 0
        while device < len(pages) and pages[device] in self.l1:
            device += 1
        host = device
        while host < len(pages) and pages[host] in self.l2:
            host += 1
        loaded = (host - device) * self.page
        return device * self.page, loaded if loaded >= self.threshold else 0

    def _prefetch(self, ids: list[int], found: int) -> int:
        pages = self._pages(ids[:-1])
        end = first = found // self.page
        while end < len(pages) and pages[end] in self.l3:
            end += 1
        tokens = (end - first) * self.page
        return tokens if tokens >= PREFETCH_THRESHOLD and self.prefetch != "best_effort" else 0

    def _text(self, ids: list[int], host: int) -> str:
        """What a model that has learned to continue says, if the prompt ends as one of its own lines begins."""
        prompt = "".join(chr(token) for token in ids)
        line, earlier = prompt[prompt.rfind("\n") :], prompt[: prompt.rfind("\n")]
        at = earlier.find(line) if line.endswith(" is") else -1
        if not self.follows or at < 0 or (self.forgets and host):
            return "?"
        return earlier[at + len(line) :][:6]

    def _pages(self, ids: list[int]) -> list[tuple[int, ...]]:
        whole = len(ids) // self.page * self.page
        return [(hash(tuple(ids[:end])),) for end in range(self.page, whole + 1, self.page)]

    def _store(self, ids: list[int], loaded: int) -> None:
        for page in reversed(self._pages(ids)):  # the deepest is the oldest, so that it leaves first
            self.l1.pop(page, None)
            self.l1[page] = None
            if self.hicache and self.backs_up and page not in self.l2:
                self.l2[page] = None
                self.counts["backup"] = self.counts.get("backup", 0) + self.page
                if self.storage and self.storage_writes and page not in self.l3:
                    if not self.loses_storage:
                        self.l3.add(page)
                    self.counts["stored"] = self.counts.get("stored", 0) + self.page
        while len(self.l1) * self.page > self.device:
            self.l1.popitem(last=False)
            self.counts["evicted"] = self.counts.get("evicted", 0) + self.page
        while len(self.l2) * self.page > self.host:
            self.l2.popitem(last=False)
        if loaded:
            self.counts["load_back"] = self.counts.get("load_back", 0) + loaded

    def _count(self, prompt: int, device: int, host: int, storage: int) -> None:
        added = {"requests": 1 + bool(self.others_each_request), "prompt": prompt + self.others_each_request}
        for name, value in (added | {"device": device, "host": host, "storage": storage}).items():
            if value:
                self.counts[name] = self.counts.get(name, 0) + value

    def metrics_text(self) -> str:
        self.reads += 1
        begun = self.others_begin_after is not None and self.reads > self.others_begin_after
        if self.others_in_between:
            self.counts["requests"] = self.counts.get("requests", 0) + 1
        if self.storage_busy:
            self.counts["stored"] = self.counts.get("stored", 0) + 1
        ranks = 'engine_type="unified",model_name="fake",pp_rank="0",tp_rank="0"'
        tree = 'cache_type="UnifiedRadixCache",dp_rank="0",pp_rank="0",tp_rank="0"'
        front = 'engine_type="unified",is_streaming="true",model_name="fake"'
        gauges = {
            "num_running_reqs": self.serves_others + begun,
            "num_queue_reqs": 0,
            "max_total_num_tokens": self.device,
            "kv_used_tokens": 0,
            "kv_evictable_tokens": len(self.l1) * self.page,
        }
        if self.hicache and not self.old:
            gauges |= {"hicache_host_total_tokens": self.host, "hicache_host_used_tokens": len(self.l2) * self.page}
        lines = [f"sglang:{name}{{{ranks}}} {value}" for name, value in gauges.items()]
        if self.dp > 1:
            lines = self._of_replicas(lines, gauges)
        for name, metric, labels in (
            ("requests", "num_requests_total", front),
            ("prompt", "prompt_tokens_total", front),
            ("device", "cached_tokens_total", front + ',cache_source="device"'),
            ("host", "cached_tokens_total", front + ',cache_source="host"'),
            ("storage", "cached_tokens_total", front + ',cache_source="storage"'),
            ("stored", "backuped_tokens_total", ranks + ',storage_backend="file"'),
            ("backup", "hicache_backup_tokens_total", tree + ',pool="kv"'),
            ("load_back", "load_back_tokens_total", tree + ',pool="kv"'),
            ("evicted", "evicted_tokens_total", tree),
        ):
            if name in self.counts and not (self.old and name == "backup"):
                lines.append(f"sglang:{metric}{{{labels}}} {self.counts[name]}")
        if "load_back" in self.counts:
            lines.append(f"sglang:load_back_bytes_total{{{tree}}} {self.counts['load_back'] * BYTES_PER_TOKEN}")
        return "\n".join(lines) + "\n"

    def _of_replicas(self, lines: list[str], gauges: dict[str, int]) -> list[str]:
        """Each with its label: what this engine counts is of the replica that is asked, and the others are full."""
        asked = next((body[name] for body in self.bodies for name in self.route_fields if name in body), 0)
        full = gauges | {"hicache_host_used_tokens": self.host, "max_total_num_tokens": 7 * self.device}
        own = [line.replace("{", f'{{dp_rank="{asked}",') for line in lines]
        labels = 'engine_type="unified",model_name="fake",pp_rank="0",tp_rank="0"'
        others = [
            f'sglang:{name}{{dp_rank="{rank}",{labels}}} {value}'
            for rank in range(self.dp)
            for name, value in full.items()
            if rank != asked
        ]
        return own + others

    def server_info(self) -> dict[str, Any]:
        return {
            "version": "0.5.9" if self.old else "0.5.23",
            "model_path": "/models/fake",
            "served_model_name": "fake",
            "weight_version": "default",
            "launch_command": "--model-path /models/fake --api-key s3cret --enable-metrics",
            "api_key": "s3cret",
            "device": "cpu",
            "page_size": self.page,
            "chunked_prefill_size": self.chunk,
            "max_req_input_len": self.context,
            "max_total_num_tokens": self.device,
            "enable_hierarchical_cache": self.hicache,
            "hicache_write_policy": self.policy,
            "hicache_io_backend": "direct",
            "hicache_mem_layout": "layer_first",
            "hicache_storage_backend": self.storage,
            "hicache_storage_prefetch_policy": self.prefetch,
            "radix_eviction_policy": self.eviction,
            "tp_size": 1,
            "pp_size": 1,
            "dp_size": self.dp,
            "tokenizer_worker_num": 1,
        }

    def flush(self) -> None:
        self.flushes += 1
        if self.flushes_nothing:
            return
        self.l1.clear()
        self.l2.clear()

    def _evidence(
        self, rid: str, prompt: int, device: int, host: int, sent: int, first: int, storage: int = 0, replica: int = 0
    ) -> seen.Evidence:
        """What comes from storage passes through the host, in slots that no backup wrote."""
        at = [sent + (first - sent) * part // 10 for part in range(10)]
        through, read = host + storage, host + storage > 0
        return seen.Evidence(
            request_id=rid,
            engine="127.0.0.1:30000",
            rank=f"dp{replica}-tp0" if self.dp > 1 else "tp0",
            recorder=seen.Recorder(watching=True, lost_records=0, lookups=1),
            lookup=seen.Lookup(prompt_tokens=prompt, device_tokens=device, host_tokens=through, node_id=7, at_ns=at[2]),
            load_back=seen.LoadBack(
                promised_tokens=through, loaded_tokens=through, outcome="loaded", node_id=7, threshold=10, at_ns=at[3]
            )
            if read
            else None,
            residency=seen.Residency(
                backed_up_tokens=host,
                unfinished_backup_tokens=0,
                left_device_tokens=host,
                node_seen_leaving=True,
                returned_since=False,
                backed_up_at_ns=sent - 4_000_000_000,
                left_device_at_ns=sent - 700_000_000,
            )
            if host
            else None,
            provenance=seen.Provenance(
                slots_read=through,
                slots_known=host,
                writers=(
                    seen.Writer(request_id="lab-a", operation_id=3, tokens=host, written_at_ns=sent - 4_000_000_000),
                )
                if host
                else (),
            )
            if read
            else None,
            transfers=(
                seen.Transfer(
                    transfer_id=1,
                    tokens=through,
                    request_tokens=through,
                    bytes=through * BYTES_PER_TOKEN,
                    submitted_ns=at[4],
                    finished_ns=at[6],
                    finished=True,
                    device_seconds=(at[6] - at[4]) / 1.2e9,
                ),
            )
            if read
            else (),
            attribution=seen.Attribution(
                device_tokens=device, host_tokens=host, storage_tokens=storage, source="scheduler"
            ),
            content=seen.Content(
                checked=through, mismatched=3 if self.damages else 0, unseen=storage, mode="full", layers=2
            )
            if read
            else None,
            admitted_ns=at[3],
            first_token_ns=first - 1000,
            prompt_tokens=prompt,
            computed_tokens=prompt - device - through,
            page_size=self.page,
        )


class _Handler(BaseHTTPRequestHandler):
    engine: FakeEngine

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/server_info":
            self._json(self.engine.server_info())
        elif path == "/metrics" and self.engine.metrics:
            self._answer(200, self.engine.metrics_text().encode())
        elif path == "/openapi.json" and self.engine.describes_api:
            self._json(self.engine.openapi())
        else:
            self._answer(404, b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/tokenize" and self.engine.tokenizer:
            self._json({"tokens": [ord(letter) for letter in json.loads(body)["prompt"]]})
        elif self.path == "/flush_cache" and self.engine.admin_key not in (None, self._key()):
            self._answer(401, b"Unauthorized")
        elif self.path == "/flush_cache":
            self.engine.flush()
            self._answer(200, b"Cache flushed.")
        elif self.path == "/generate":
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for event in self.engine.generate(json.loads(body)):
                self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            self.wfile.write(b"data: [DONE]\n\n")
        else:
            self._answer(404, b"")

    def _key(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    def _json(self, document: Any) -> None:
        self._answer(200, json.dumps(document).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


class _Sidecar(_Handler):
    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/-/healthy":
            self._answer(200, b"ok")
        elif path == "/metrics":
            self._answer(200, self._metrics().encode())
        elif path == "/state":
            engine = {
                "engine": self.engine.address,
                "recorders": [{}],
                "capacity_tokens": {"device": 0, "host": self.engine.host},
            }
            self._json({"engines": [engine]})
        elif path.startswith("/proofs/"):
            self._proof(path.removeprefix("/proofs/"))
        else:
            self._answer(404, b"")

    def _metrics(self) -> str:
        labels = f'engine="{self.engine.address}",direction="device_to_host"'
        return (
            f'# TYPE hicache_gpu_memory_used_bytes gauge\nhicache_gpu_memory_used_bytes{{gpu="0"}} {3 << 30}\n'
            f"# TYPE hicache_transfer_tokens counter\n"
            f"hicache_transfer_tokens_total{{{labels}}} {self.engine.counts.get('backup', 0)}\n"
        )

    def _proof(self, rid: str) -> None:
        found = self.engine.log.get(rid)
        if found is None:
            self._answer(404, b'{"error": "not recorded"}')
            return
        told = not (self.engine.lazy and found.transfers and rid == self.engine.asked[-1])
        if not told:
            transfers = (replace(found.transfers[0], finished=None, finished_ns=None),)
            found = replace(found, transfers=transfers, content=None)
        events = [
            {"at_ns": found.lookup.at_ns, "kind": "lookup"},
            {"at_ns": found.first_token_ns, "kind": "first_token"},
        ]
        if found.attribution.storage_tokens and not self.engine.prefetches_unseen:
            used = {"used_tokens": found.attribution.storage_tokens, "outcome": "used"}
            events.insert(0, {"at_ns": found.lookup.at_ns - 9, "kind": "storage_prefetch"} | used)
        proof = {"evidence": found, "judgement": judge(found), "events": events, "final": told}
        self._answer(200, msgspec.json.encode(proof))


@contextmanager
def serving(engine: FakeEngine, handler: type[_Handler] = _Handler) -> Iterator[str]:
    """The address of a server for ``engine`` until the block ends."""
    bound = type("Bound", (handler,), {"engine": engine})
    with ThreadingHTTPServer(("127.0.0.1", 0), bound) as server:
        if handler is _Handler:
            engine.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def sidecar_of(engine: FakeEngine) -> Any:
    return serving(engine, _Sidecar)

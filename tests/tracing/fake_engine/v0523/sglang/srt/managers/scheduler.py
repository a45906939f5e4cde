from __future__ import annotations

from types import SimpleNamespace

from engine_parts import FINISH_ABORT, ForwardMode, Pool

from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
from sglang.srt.managers.schedule_policy import AddReqResult, PrefillAdder
from sglang.srt.managers.scheduler_components.weight_updater import SchedulerWeightUpdaterManager
from sglang.srt.mem_cache.common import release_kv_cache
from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import HybridCacheController
from sglang.srt.mem_cache.unified_radix_cache import CacheRequestHandle, UnifiedRadixCache


class Scheduler:
    def __init__(self, server_args, port_args):
        self.server_args = server_args
        self.ps = SimpleNamespace(tp_rank=1, pp_rank=0, dp_rank=None)
        self.max_total_num_tokens = server_args.device_tokens
        controller = HybridCacheController(Pool(server_args.device_tokens), Pool(server_args.host_tokens))
        self.tree_cache = UnifiedRadixCache(controller, write_policy=server_args.hicache_write_policy)
        self.waiting, self.running, self.chunked = [], [], None
        self.token_budget, self.chunk = 10_000, None
        self.weight_updater = SchedulerWeightUpdaterManager()

    def receive(self, rid, prompt, max_new_tokens=1):
        req = Req(rid, prompt, max_new_tokens)
        self.waiting.append(req)
        if self.tree_cache.enable_storage:
            self.tree_cache.prefetch_from_storage(CacheRequestHandle(rid), None, req.origin_input_ids)
        return req

    def step(self):
        """One turn of the event loop."""
        self.tree_cache.check_hicache_events()
        batch = self._new_prefill() or self._new_decode()
        if batch is not None:
            self.process_batch_result(batch, [len(req.output_ids) for req in batch.reqs])
        else:
            self.on_idle()
        return batch

    def on_idle(self):
        self.idle_turns = getattr(self, "idle_turns", 0) + 1

    def _new_prefill(self):
        adder = PrefillAdder(self.tree_cache, self.token_budget, self.chunk)
        if self.chunked is not None:
            self.chunked.host_hit_length = 0
            adder.add_chunked_req(self.chunked)
        for req in list(self.waiting):
            if self.tree_cache.enable_storage:
                self.tree_cache.check_prefetch_progress(CacheRequestHandle(req.rid))
                req.storage_hit_length, _ = self.tree_cache.pop_prefetch_loaded_span(CacheRequestHandle(req.rid))
            self.tree_cache.match_prefix(req)
            result = adder.add_one_req(req, has_chunked_req=self.chunked is not None, truncation_align_size=None)
            if result is not AddReqResult.CONTINUE:
                break
            self.waiting.remove(req)
        if not adder.can_run_list:
            return None
        batch = ScheduleBatch(adder.can_run_list)
        batch.prepare_for_extend()
        self.tree_cache.ready_to_load_host_cache()
        self.chunked = next((req for req in batch.reqs if req.inflight_middle_chunks), None)
        return batch

    def _new_decode(self):
        return ScheduleBatch(self.running, ForwardMode.DECODE) if self.running else None

    def process_batch_result(self, batch, result):
        for req, token in zip(batch.reqs, result, strict=True):
            if req.finished() or req.is_retracted:
                continue
            if req.inflight_middle_chunks:
                req.inflight_middle_chunks -= 1
                req.prefix_len += req.extend_len
                self.tree_cache.checkpoint(req, up_to=req.prefix_len)
                continue
            req.output_ids.append(token)
            req.check_finished()
            if req.finished():
                release_kv_cache(req, self.tree_cache, checkpoint=True)
            elif batch.forward_mode.is_extend():
                self.tree_cache.checkpoint(req, up_to=len(req.origin_input_ids))
        seen = [*self.running, *(req for req in batch.reqs if req not in self.running)]
        self.running = [req for req in seen if req.output_ids and not req.finished()]
        self.tree_cache.flush_pending_backups()

    def retract(self, req):
        release_kv_cache(req, self.tree_cache, checkpoint=False)
        req.is_retracted = req.retracted_stain = True
        req.retraction_count += 1
        req.already_computed = req.prefix_len = 0
        self.running.remove(req)
        self.waiting.append(req)

    def abort(self, req):
        req.finished_reason = FINISH_ABORT()
        release_kv_cache(req, self.tree_cache, checkpoint=False)
        self.running = [other for other in self.running if other is not req]

    def finish_copies(self):
        """The device gets to the end of every copy that it was given."""
        controller = self.tree_cache.cache_controller
        for ack in [*controller.ack_write_queue, *controller.ack_load_queue]:
            ack.finish_event.synchronize()

    def evict(self, tokens):
        return self.tree_cache._evict(tokens)

"""The engine's cache trees and cache controllers that have seams: (module, class)."""

from __future__ import annotations

HIRADIX = ("sglang.srt.mem_cache.hiradix_cache", "HiRadixCache")
HIMAMBA = ("sglang.srt.mem_cache.hi_mamba_radix_cache", "HiMambaRadixCache")
UNIFIED = ("sglang.srt.mem_cache.unified_radix_cache", "UnifiedRadixCache")
RADIX = ("sglang.srt.mem_cache.radix_cache", "RadixCache")
CONTROLLER = ("sglang.srt.managers.cache_controller", "HiCacheController")
HYBRID = ("sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller", "HybridCacheController")
TREES = (HIRADIX, HIMAMBA, UNIFIED)
CONTROLLERS = (CONTROLLER, HYBRID)

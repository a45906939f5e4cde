"""L2's pool in plain memory, and the copy between it and the KV cache, which is plain memory too."""


def adapt(module):
    if "ALLOC_MEMORY_FUNCS" in vars(module):
        module.ALLOC_MEMORY_FUNCS["cpu"] = allocate
    if "MHATokenToKVPoolHost" in vars(module):
        module.transfer_kv_direct = transfer_kv_direct
        _leave_pages_unpinned(module.MHATokenToKVPoolHost)


def allocate(dims, dtype, device, pin_memory, allocator, **_granularity):
    """The engine's own allocator without the registration with CUDA that makes memory pinned."""
    return allocator.allocate(dims, dtype=dtype, device=device)


def transfer_kv_direct(src_layers, dst_layers, src_indices, dst_indices, page_size):
    """Copy token rows: ``dst[dst_indices] = src[src_indices]`` for each pair of (slots, heads, head size) tensors."""
    for source, destination in zip(src_layers, dst_layers, strict=True):
        destination[dst_indices] = source[src_indices]


def _leave_pages_unpinned(pool_class):
    """L3 reads a page into a buffer for which it asks for pinned memory."""
    make_page = pool_class.get_dummy_flat_data_page

    def get_dummy_flat_data_page(self, *args, **kwargs):
        self.pin_memory = False
        return make_page(self, *args, **kwargs)

    pool_class.get_dummy_flat_data_page = get_dummy_flat_data_page

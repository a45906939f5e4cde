"""Pages of several tokens: the engine's allocator hands slots out by Triton kernels, here by a loop."""


def adapt(module):
    for name, function in (("alloc_extend_kernel", extend), ("alloc_decode_kernel", decode)):
        if name in vars(module):
            setattr(module, name, Launched(function))


class Launched:
    """Called as a Triton kernel is: with a grid first."""

    def __init__(self, function):
        self._function = function

    def __getitem__(self, _grid):
        return self._function


def extend(prefix_lens, seq_lens, last_loc, free_pages, out, _batch, page_size, *_more):
    """Slots of the tokens from ``prefix_lens`` to ``seq_lens``, request by request: the page begun, then new ones.

    Whether there were enough the engine counts afterwards, and throws the slots away: beyond the last page, page 0.
    """
    pages, slots = iter(free_pages.tolist()), []
    for prefix, length, last in zip(prefix_lens.tolist(), seq_lens.tolist(), last_loc.tolist(), strict=True):
        slot = last
        for position in range(prefix, length):
            slot = slot + 1 if position % page_size else next(pages, 0) * page_size
            slots.append(slot)
    out[: len(slots)] = out.new_tensor(slots)


def decode(seq_lens, last_loc, free_pages, out, batch, page_size, *more):
    extend(seq_lens - 1, seq_lens, last_loc, free_pages, out, batch, page_size, *more)

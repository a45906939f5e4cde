"""torch.cpu's events and streams, with the methods of torch.cuda's that HiCache calls."""

import time


class Event:
    """The CPU has finished what it was told before it goes on, so an event has always happened; its time is taken."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False):
        self._recorded = None

    def record(self, stream=None):
        self._recorded = time.perf_counter()

    def query(self):
        return True

    def wait(self, stream=None):
        pass

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        """Milliseconds."""
        return (end._recorded - self._recorded) * 1e3


def adapt(torch_cpu):
    torch_cpu.Event = Event
    torch_cpu.Stream.synchronize = lambda self: None

"""Asks now and then on which NUMA nodes the memory of the ranks lies: in a thread, since it may have to wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from hicache_exporter.sources.page_nodes import PagesHiddenError, node_shares

INTERVAL_SECONDS = 60.0

Answer = dict[int, float] | str
"""Shares by node, or the reason why they can't be known."""


class NumaWatch:
    """``pids`` gives the processes to ask about; ``latest`` what was last known of each, never waiting."""

    def __init__(
        self,
        pids: Callable[[], Iterable[int]],
        shares: Callable[[int], dict[int, float]] = node_shares,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._pids, self._shares, self._interval = pids, shares, interval_seconds
        self._answers: dict[int, Answer] = {}
        self._stopping = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._keep, name="numa-watch", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def latest(self) -> Mapping[int, Answer]:
        return self._answers

    def ask(self) -> None:
        """One round over all processes; those that are gone are forgotten."""
        self._answers = {pid: self._answer(pid) for pid in self._pids()}

    def _answer(self, pid: int) -> Answer:
        try:
            return self._shares(pid)
        except PagesHiddenError as error:
            return error.reason

    def _keep(self) -> None:
        while not self._stopping.is_set():
            self.ask()
            self._stopping.wait(self._interval)

"""How far the run is, on stderr, and only where somebody looks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from hicache_proof.lab.series import Progress as Reporter


class Silent:
    def stage(self, name: str, steps: int) -> None: ...
    def step(self) -> None: ...


class Bar:
    """One line per stage."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task: TaskID | None = None

    def stage(self, name: str, steps: int) -> None:
        self._finish()
        self._task = self._bar.add_task(name, total=steps)

    def step(self) -> None:
        if self._task is not None:
            self._bar.advance(self._task)

    def _finish(self) -> None:
        if self._task is not None:
            self._bar.update(self._task, completed=self._bar.tasks[-1].total or 0)


@contextmanager
def shown(console: Console) -> Iterator[Reporter]:
    """A bar if ``console`` is a terminal, else nothing."""
    if not console.is_terminal:
        yield Silent()
        return
    columns = (TextColumn("{task.description:<26}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        reporter = Bar(bar)
        yield reporter
        reporter._finish()

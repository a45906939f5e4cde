"""How far the run is, on stderr: a bar where somebody looks, a line a stage where a log is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from hicache_proof.lab.series import Progress as Reporter


class Lines:
    """A plain line as each stage starts."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def stage(self, name: str, steps: int) -> None:
        self._console.print(f"hicache-witness lab: {name}", markup=False, highlight=False, soft_wrap=True)

    def step(self) -> None: ...


class Bar:
    """A bar a stage."""

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
    """A bar if ``console`` is a terminal, else lines."""
    if not console.is_terminal:
        yield Lines(console)
        return
    columns = (TextColumn("{task.description:<26}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        reporter = Bar(bar)
        yield reporter
        reporter._finish()

"""What is printed, all of it: text of an engine, a server or a file must not steer the terminal that shows it."""

from __future__ import annotations

from collections.abc import Iterable

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

PIPE_WIDTH = 140
"""Columns where nobody can see how wide the page is; rich would break lines at 80."""
_CONTROL = [code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"]
_TURNING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""They make text run the other way, so that it reads as something else."""
_SHOWN = dict.fromkeys((*_CONTROL, *_TURNING), "\N{REPLACEMENT CHARACTER}")


def plain(text: str) -> str:
    """``text`` with a replacement character for each that would steer a terminal; tabs and line ends stay."""
    return text.translate(_SHOWN)


def say(text: str, *, err: bool = False) -> None:
    """A line on stdout or stderr."""
    click.echo(plain(text), err=err)


class Terminal(Console):
    """A console whose styles are its own alone."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text))


def stdout() -> Terminal:
    console = Terminal()
    return console if console.is_terminal else Terminal(width=PIPE_WIDTH)


def stderr() -> Terminal:
    return Terminal(stderr=True)

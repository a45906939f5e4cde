"""The manual pages, from click: one for the command and one for each subcommand. They are shipped in the wheel."""

from __future__ import annotations

from inspect import cleandoc
from pathlib import Path

import click
from click_man.man import ManPage

from hicache_exporter.commands import SUBCOMMANDS, commands
from hicache_tracing.launch import USAGE

FOLDER = Path("docs/man")
NAME = "hicache-witness"
UNTOUCHED = "\b"
"""click's mark in front of a paragraph whose line breaks stay."""


def pages() -> dict[Path, str]:
    """Path under the repository to content."""
    parent = click.Context(commands, info_name=NAME, **commands.context_settings)
    made = {f"{NAME}.1": _whole(parent)}
    for name in SUBCOMMANDS:
        command = commands.get_command(parent, name)
        if command is None:
            raise LookupError(f"{name} is not installed here")
        made[f"{NAME}-{name}.1"] = _one(click.Context(command, info_name=name, parent=parent), SUBCOMMANDS[name][2])
    made[f"{NAME}-launch.1"] = _launch()
    return {FOLDER / name: text for name, text in made.items()}


def _whole(context: click.Context) -> str:
    manual = _empty(NAME, context.command.help or "")
    manual.synopsis = "[OPTIONS] COMMAND [ARGS]..."
    manual.description = cleandoc(context.command.help or "")
    manual.options = _options(context)
    launch = commands.get_command(context, "launch")
    assert launch is not None
    manual.commands = [*((name, line) for name, (_, _, line) in SUBCOMMANDS.items()), ("launch", launch.short_help)]
    return str(manual) + _as_it_is(context.command.epilog)


def _one(context: click.Context, line: str) -> str:
    manual = _empty(context.command_path, line)
    manual.synopsis = " ".join(context.command.collect_usage_pieces(context))
    manual.description = cleandoc(context.command.help or "").replace(UNTOUCHED, "")
    manual.options = _options(context)
    return str(manual) + _as_it_is(context.command.epilog)


def _launch() -> str:
    """It runs without click, so its usage text is its page."""
    manual = _empty(f"{NAME} launch", "Start an engine with the flight recorder in it.")
    usage, _, rest = USAGE.partition("\n\n")
    manual.synopsis = usage.removeprefix(f"usage: {NAME} launch ")
    return str(manual) + ".SH DESCRIPTION\n" + _as_it_is(rest)


def _empty(command: str, line: str) -> ManPage:
    manual = ManPage(command)
    manual.short_help = line.strip().rstrip(".")
    manual.version = manual.date = ""  # a page that is committed can't know them
    return manual


def _options(context: click.Context) -> list[tuple[str, str]]:
    records = [option.get_help_record(context) for option in context.command.get_params(context)]
    return [(option, text.replace("\\", "\\e")) for option, text in filter(None, records)]


def _as_it_is(text: str | None) -> str:
    """Lines that are not filled."""
    lines = cleandoc((text or "").replace(UNTOUCHED, "")).replace("\\", "\\e").replace("-", "\\-")
    return f".PP\n.nf\n{lines}\n.fi\n" if lines else ""

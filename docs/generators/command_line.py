"""The page of commands, from click; ``launch`` (standard library only) has its own usage text."""

from __future__ import annotations

import click

from hicache_exporter.commands import SUBCOMMANDS, commands
from hicache_tracing.launch import USAGE

from .markdown import page

WIDTH = 100


def rendered() -> str:
    sections = [_section(name) for name in SUBCOMMANDS]
    sections.append(f"## launch\n\n```\n{USAGE.strip()}\n```")
    return page("Command line", *sections, source="the commands' own --help")


def _section(name: str) -> str:
    parent = click.Context(commands, info_name="hicache-witness", **commands.context_settings)
    command = commands.get_command(parent, name)
    if command is None:
        raise LookupError(f"{name} is not installed here")
    context = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH, max_content_width=WIDTH)
    return f"## {name}\n\n```\n{command.get_help(context).strip()}\n```"

"""The page of environment variables: the switches of the plugin and of the sidecar."""

from __future__ import annotations

import click

from hicache_exporter.commands import SUBCOMMANDS, commands
from hicache_tracing.config import DEFAULT_FOLDER
from hicache_tracing.records import DEFAULT_CAPACITY, SLOT_SIZE

from .markdown import cell, code, page, table

PLUGIN = {
    "HICACHE_WITNESS": "`1` attaches the plugin. Unset: not one function of the engine is touched.",
    "HICACHE_WITNESS_DIR": f"Folder of the ring files, made with mode 0700. Default `{DEFAULT_FOLDER}`.",
    "HICACHE_WITNESS_CONTENT": "`off` (default), `sampled` or `full`: compare rows read back with rows stored.",
    "HICACHE_WITNESS_SLOTS": (
        f"Slots of a ring, 1024 to 16777216. Default {DEFAULT_CAPACITY} ({DEFAULT_CAPACITY * SLOT_SIZE >> 20} MiB)."
    ),
    "HICACHE_WITNESS_SEAMS_OFF": "Names of seams to leave alone, separated by commas.",
}
OTHERS = {
    "HICACHE_WITNESS_TOKEN": "Bearer token for engines that ask for one (or `--token-file`).",
    "HICACHE_WITNESS_CACHE": "Where the demo keeps the engine's environment and model. Default: the user's cache.",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "Where the sidecar sends spans. Unset: it sends none.",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "`grpc` or `http/protobuf`.",
}
INTRODUCTION = """
Options of the commands are in [Command line](cli.md); `serve --config FILE` takes the same names from a TOML file. A
value that makes no sense is named once in the log, and its default taken; the engine starts all the same.
"""


def rendered() -> str:
    head = ("variable", "meaning")
    plugin = table(head, [(code(name), says) for name, says in PLUGIN.items()])
    sidecar = table(head, [*_of_options(), *((code(name), says) for name, says in OTHERS.items())])
    parts = (INTRODUCTION, "## In the engine's environment", plugin, "## In the sidecar's", sidecar)
    return page("Environment variables", *parts, source="docs/generators/settings.py and the options' own help")


def _of_options() -> list[tuple[str, str]]:
    """The variables that stand in for an option."""
    context = click.Context(commands)
    found: dict[str, str] = {}
    for name in SUBCOMMANDS:
        command = commands.get_command(context, name)
        for option in command.params if command else ():
            if isinstance(option, click.Option) and isinstance(option.envvar, str) and option.envvar not in OTHERS:
                found.setdefault(option.envvar, f"`{name} {option.opts[0]}`: {cell(option.help or '')}")
    return [(code(name), says) for name, says in found.items() if name not in PLUGIN]

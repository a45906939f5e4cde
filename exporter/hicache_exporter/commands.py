"""The command line as a group of subcommands, each imported only when it is used."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec

import click
from click.shell_completion import CompletionItem

from hicache_exporter import __version__

# name: (module, function, one line for the list)
SUBCOMMANDS = {
    "serve": ("hicache_exporter.serve", "serve", "Follow recorders and engines; serve metrics, proofs, a live page."),
    "lab": ("hicache_proof.lab.command", "lab", "Prove an L2 read on a running engine: A, B, C and a control."),
    "demo": ("hicache_proof.demo.command", "demo", "One proven L2 read on this machine, without a GPU."),
    "compare": ("hicache_proof.compare.command", "command", "Hold two results of the lab against each other."),
    "doctor": ("hicache_proof.doctor.command", "doctor", "Say what is wrong with an engine's HiCache, and why."),
    "storage": ("hicache_proof.storage.command", "storage", "See, attach or detach L3 of a running engine."),
    "verify": ("hicache_proof.verify_command", "command", "Check a proof certificate again."),
    "replay": ("hicache_exporter.replay.command", "replay", "Serve a recorded session, without an engine."),
    "rules": ("hicache_dashboards.command", "rules", "Print Prometheus rules and alerts, with your thresholds."),
}


class LazyGroup(click.Group):
    """Lists what is installed; a subcommand's module, and all that it needs, is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*(name for name, (module, _, _) in SUBCOMMANDS.items() if _is_there(module)), "launch"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "launch":
            return launch
        if cmd_name not in SUBCOMMANDS:
            return None
        module, function, _ = SUBCOMMANDS[cmd_name]
        if not _is_there(module):
            return None
        try:
            command: click.Command = getattr(import_module(module), function)
        except ModuleNotFoundError as error:
            if ctx.resilient_parsing:  # a shell that completes a line: nothing to complete, and nothing to say
                return None
            raise click.ClickException(
                f"{cmd_name} needs {error.name}, which is not installed here: pip install '.[lab]' in its checkout"
            ) from None
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """With the command that was meant, where another one was written."""
        name, known = args[0], self.list_commands(ctx)
        near = get_close_matches(name, known, n=1)
        if near and name not in SUBCOMMANDS and name not in known and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of subcommands, without importing what is behind them, and our own options."""
        found = [
            CompletionItem(name, help=SUBCOMMANDS[name][2] if name in SUBCOMMANDS else launch.short_help)
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list, without importing what is behind it."""
        lines = [(name, SUBCOMMANDS[name][2]) for name in self.list_commands(ctx) if name in SUBCOMMANDS]
        with formatter.section("Commands"):
            formatter.write_dl([*lines, ("launch", launch.short_help or "")])


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


EPILOG = """\b
Shell completion: eval "$(_HICACHE_WITNESS_COMPLETE=bash_source hicache-witness)" (or zsh_source, fish_source)
"""


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hicache-witness")
def commands() -> None:
    """Prove, request by request, which tier served a prefix in SGLang's HiCache, and keep watching."""


@click.command(
    short_help="Start an engine with the flight recorder in it.",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def launch(arguments: tuple[str, ...]) -> None:
    """Start an engine that has no plugin loader (SGLang 0.5.10 and older) with the flight recorder in it."""
    from hicache_exporter.cli import launch as start

    start(list(arguments))

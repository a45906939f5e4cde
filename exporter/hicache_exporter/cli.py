"""``hicache-witness``: one command. Needs the standard library only, until a subcommand needs more."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from hicache_exporter import __version__

NEEDS_CLICK = (
    "hicache-witness: this command needs the exporter's packages, which are not installed here: "
    "pip install '.[exporter]' in its checkout (launch works without them)"
)


def main() -> None:
    """Entry point of the console script. Exits with the subcommand's code."""
    # prometheus_client would join an engine's multiprocess registry, and leave a file in its folder
    os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
    os.environ.pop("prometheus_multiproc_dir", None)
    if sys.argv[1:2] == ["launch"]:
        launch(sys.argv[2:])
    run = _commands()
    if run is None and sys.argv[1:] == ["--version"]:
        run = version
    if run is None:
        print(NEEDS_CLICK, file=sys.stderr)
        sys.exit(2)
    run()


def launch(arguments: list[str]) -> None:
    """Start an engine with the flight recorder in it, in an environment that may have nothing else of ours."""
    from hicache_tracing.launch import main as launch_main

    sys.exit(launch_main(arguments))


def version() -> None:
    """What the command line says itself where click is."""
    print(f"hicache-witness, version {__version__}")


def _commands() -> Callable[[], object] | None:
    """The command line; None without click."""
    try:
        from hicache_exporter.commands import commands
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        return None
    return commands


if __name__ == "__main__":
    main()

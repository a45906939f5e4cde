"""``hicache-witness demo``: one proven read of L2 on this machine, with nothing prepared and no GPU."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path

import click
import msgspec

from hicache_proof import terminal
from hicache_proof.demo import show
from hicache_proof.demo.environment import tail
from hicache_proof.demo.errors import DemoError
from hicache_proof.demo.show import Stage
from hicache_proof.demo.stopwatch import Stopwatch
from hicache_proof.lab import progress
from hicache_proof.lab.errors import CannotRunError
from hicache_proof.lab.run import LabRun
from hicache_proof.report import console as console_report
from hicache_proof.report import files
from hicache_proof.terminal import say

INTERRUPTED = 130


@click.command(name="demo")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("out/demo"), show_default=True)
@click.option("--keep", is_flag=True, help="Leave engine and sidecar running until Ctrl-C, to look around.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole run as JSON on stdout.")
def demo(out: Path, keep: bool, as_json: bool) -> None:
    """Start SGLang with HiCache on this machine's CPU, prove one read from host RAM, write the report, stop everything.

    The first run installs the engine's environment into a cache folder. Exit codes are those of the lab.
    """
    watch = Stopwatch(lambda line: click.echo(line, err=True))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end in good order, as on Ctrl-C
    try:
        files.folder_for(out)
        sys.exit(_demo(out, keep, as_json, watch))
    except (DemoError, OSError) as error:
        say(f"hicache-witness demo: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        click.echo("hicache-witness demo: stopped; nothing of it is left running", err=True)
        sys.exit(INTERRUPTED)


def _demo(out: Path, keep: bool, as_json: bool, watch: Stopwatch) -> int:
    with show.on_stage(out.resolve() / "logs", watch, lambda line: click.echo(line, err=True)) as stage:
        try:
            run = _prove(stage, watch)
        except CannotRunError as error:
            raise DemoError(
                f"{error}\nThe engine's log, {stage.engine.log}, ends with:\n{tail(stage.engine.log)}"
            ) from None
        with watch.stage("report"):
            files.write(run, out)
        _print(run, out, as_json)
        if keep:
            _keep(stage)
        with watch.stage("stopping"):
            stage.sidecar.close()
            stage.engine.close()
            stage.control.close()
    click.echo(watch.summary(), err=True)
    return run.outcome.exit_code


def _prove(stage: Stage, watch: Stopwatch) -> LabRun:
    with watch.stage("lab"), progress.shown(terminal.stderr()) as reporter:
        return show.prove(stage, shlex.join(("hicache-witness", *sys.argv[1:])), reporter)


def _print(run: LabRun, out: Path, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(run))
    else:
        console_report.print_run(run, terminal.stdout())
        click.echo(f"\nreport: {out / 'report.html'} (also report.md, report.json, certificate.json, trace.json)")


def _keep(stage: Stage) -> None:
    click.echo(
        f"\nengine {stage.engine.url}  metrics and proofs {stage.sidecar.url}  control {stage.control.url}", err=True
    )
    click.echo("running until Ctrl-C ...", err=True)
    try:
        show.keep(stage)
    except KeyboardInterrupt:
        click.echo("", err=True)

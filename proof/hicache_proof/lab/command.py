"""``hicache-witness lab``: arguments in, a verdict out. Exit 0 proven, 1 not proven, 2 could not run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from hicache_exporter.sources.targets import TargetError, parse_target
from hicache_proof import terminal
from hicache_proof.lab import progress
from hicache_proof.lab.errors import CannotRunError
from hicache_proof.lab.lab import Target, connected
from hicache_proof.lab.options import Options
from hicache_proof.lab.plan import REPETITIONS
from hicache_proof.report import console as console_report
from hicache_proof.report import files
from hicache_proof.terminal import say

INTERRUPTED = 130


class TokenRange(click.ParamType[tuple[int, int]]):
    name = "first-last"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        first, separator, last = value.partition("-")
        if not separator or not first.isdigit() or not last.isdigit() or int(first) > int(last):
            self.fail(f"{value!r} is not a range of token ids such as 1000-30000", param, ctx)
        return int(first), int(last)


class Ladder(click.ParamType[tuple[int, ...]]):
    """Whole numbers with commas between them."""

    name = "n,n,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
            self.fail(f"{value!r} is not a list of whole numbers such as 1,2,4", param, ctx)
        return tuple(int(part) for part in parts)


class Url(click.ParamType[str]):
    """``host:port`` is a URL too, as for the other commands."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            parse_target(value)
        except TargetError as error:
            self.fail(str(error), param, ctx)
        return value if "://" in value else f"http://{value}"


@click.command(name="lab")
@click.option(
    "--engine", required=True, type=Url(), metavar="URL", help="The SGLang server, e.g. http://127.0.0.1:30000."
)
@click.option(
    "--sidecar", type=Url(), default="http://127.0.0.1:9838", show_default=True, metavar="URL", help="The sidecar."
)
@click.option(
    "--control-engine",
    "control",
    type=Url(),
    metavar="URL",
    help="The same model without HiCache; else a forced miss is the control.",
)
@click.option(
    "--prefix-tokens", type=click.IntRange(min=1), help="Length of the prefix. Default: what fits the engine."
)
@click.option("--repetitions", type=click.IntRange(min=2), default=REPETITIONS, show_default=True)
@click.option(
    "--l3", "storage", is_flag=True, help="Series E as well: empty L1 and L2, and read from the storage backend."
)
@click.option(
    "--ladder", "lengths", type=Ladder(), default=(), help="Prefix lengths; finds from which one on L2 beats computing."
)
@click.option("--concurrency", type=Ladder(), default=(), help="Requests at once: TTFT and throughput at each level.")
@click.option("--skip-eviction", is_flag=True, help="Leave the prefix in L1: a negative control, which must exit 1.")
@click.option(
    "--flush",
    is_flag=True,
    help="Empty the engine's cache first (with --l3 also before series E, where that is safe).",
)
@click.option("--allow-traffic", is_flag=True, help="Run although others use the engine.")
@click.option("--without-recorder", is_flag=True, help='Go on without the flight recorder: "consistent" at best.')
@click.option("--token-ids", type=TokenRange(), help="Draw prompts from these ids (an engine without a tokenizer).")
@click.option("--dp-rank", type=click.IntRange(min=0), help="Which data-parallel replica to ask. Default: the first.")
@click.option(
    "--api-key-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File with the engine's key."
)
@click.option(
    "--admin-key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the key of an engine that was started with --admin-api-key; for its flush.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write the reports into this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole run as JSON on stdout.")
@click.option("--dry-run", is_flag=True, help="Show the plan and its arithmetic; ask the engine for nothing.")
def lab(skip_eviction: bool, out: Path | None, as_json: bool, dry_run: bool, **given: Any) -> None:
    """Prove on a running engine that a prefix is read back from host RAM (L2), or say why it is not proven.

    Exit 0: proven or corroborated (and with --l3, E read from storage). 1: not proven. 2: the experiment could not be
    carried out.
    """
    target = Target(**{name: given.pop(name) for name in Target._fields})
    options = Options(evict=not skip_eviction, **given)
    try:
        if out is not None:
            files.folder_for(out)
        sys.exit(_run(target, options, out, as_json, dry_run))
    except (CannotRunError, OSError) as error:
        if as_json:
            click.echo(msgspec.json.encode({"error": str(error)}))
        say(f"hicache-witness lab: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        say("hicache-witness lab: stopped; the engine keeps nothing of it but some cached prompts", err=True)
        sys.exit(INTERRUPTED)


def _run(target: Target, options: Options, out: Path | None, as_json: bool, dry_run: bool) -> int:
    stderr, stdout = terminal.stderr(), terminal.stdout()
    with connected(target, options) as experiment:
        if dry_run:
            console_report.print_plan(*experiment.preview(), stdout)
            if experiment.sidecar_missing:
                say(f"{experiment.sidecar_missing}: a run would stop here (or take --without-recorder)", err=True)
            return 0
        with progress.shown(stderr) as reporter:
            run = experiment.run(reporter, shlex.join(("hicache-witness", *sys.argv[1:])))
    if out is not None:
        files.write(run, out)
    if as_json:
        click.echo(msgspec.json.encode(run))
    else:
        console_report.print_run(run, stdout)
    if run.sidecar_missing and not options.without_recorder:
        say(f"hicache-witness lab: {run.sidecar_missing}", err=True)
    return run.outcome.exit_code

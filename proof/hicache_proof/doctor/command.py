"""``hicache-witness doctor``: one page on what is wrong with an engine's HiCache. Reads only, unless told to probe."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click
import httpx
import msgspec
from msgspec.structs import replace

from hicache_exporter.config import DEFAULT_LISTEN, DEFAULT_RING_FOLDER
from hicache_exporter.finite import FiniteRange
from hicache_exporter.sources.targets import TargetError, parse_target
from hicache_proof.chain.diagnosis import diagnose
from hicache_proof.chain.facts import ChainInput
from hicache_proof.direct_http import direct_client
from hicache_proof.doctor import page
from hicache_proof.doctor.collect import Sources, collect
from hicache_proof.doctor.probe import probe
from hicache_proof.doctor.window import between, of_this_engine
from hicache_proof.lab.errors import CannotRunError
from hicache_proof.terminal import say, stdout

EXIT_CODES = {"error": 2, "warning": 1, "note": 0}
COULD_NOT_EXAMINE = 3


EXAMPLES = """\b
Examples:
  hicache-witness doctor --engine http://127.0.0.1:30000
  hicache-witness doctor --engine 127.0.0.1:30000 --sidecar 127.0.0.1:9838 --watch 60
  hicache-witness doctor --engine 127.0.0.1:30000 --json | jq -r .diagnosis.first_broken
"""


@click.command("doctor", epilog=EXAMPLES)
@click.option("--engine", required=True, metavar="URL", help="The SGLang server, host:port or URL.")
@click.option(
    "--sidecar",
    default=f"http://{DEFAULT_LISTEN}",
    show_default=True,
    metavar="URL",
    help="The sidecar, host:port or URL; brings the recorder's counts.",
)
@click.option(
    "--ring-dir",
    default=DEFAULT_RING_FOLDER,
    show_default=True,
    envvar="HICACHE_WITNESS_DIR",
    help="Folder of the flight recorders; used where no sidecar tells of them.",
)
@click.option("--watch", type=FiniteRange(min=1), metavar="SECONDS", help="Judge only what happens from now on.")
@click.option("--probe", "with_probe", is_flag=True, help="Send one prompt twice, to check the replies' cached tokens.")
@click.option(
    "--api-key-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File with the engine's key."
)
@click.option("--json", "as_json", is_flag=True, help="Print facts and diagnosis as JSON.")
def doctor(
    engine: str,
    sidecar: str,
    ring_dir: str,
    watch: float | None,
    with_probe: bool,
    api_key_file: Path | None,
    as_json: bool,
) -> None:
    """Say what is wrong with an engine's HiCache: the first broken stage from its flags to its benefit, and what to do.

    Exit 0: nothing. 1: warnings. 2: the chain is broken. 3: could not be examined.
    """
    try:
        sources = Sources(parse_target(engine).origin, _origin_of_sidecar(sidecar), ring_dir)
        with direct_client(api_key_file, answer_seconds=30.0, connect_seconds=5.0) as http:
            facts = _facts(sources, http, watch, with_probe)
    except TargetError as error:
        raise click.UsageError(str(error)) from None
    except (CannotRunError, OSError, UnicodeDecodeError) as error:
        say(f"hicache-witness doctor: {error}", err=True)
        sys.exit(COULD_NOT_EXAMINE)
    diagnosis = diagnose(facts)
    if as_json:
        click.echo(msgspec.json.encode({"facts": facts, "diagnosis": diagnosis, "findings": diagnosis.findings}))
    else:
        page.show(diagnosis, sources.engine, facts.probe, stdout())
    sys.exit(max((EXIT_CODES[finding.severity] for finding in diagnosis.findings), default=0))


def _origin_of_sidecar(address: str) -> str:
    try:
        return parse_target(address).origin
    except TargetError as error:
        raise click.BadParameter(str(error).removeprefix("engine "), param_hint="--sidecar") from None


def _facts(sources: Sources, http: httpx.Client, watch: float | None, with_probe: bool) -> ChainInput:
    """What is counted covers the probe too, which comes first: its backup takes a moment."""
    before, began = collect(sources, http), time.monotonic()
    sent = probe(sources.engine, http) if with_probe else None
    probe_seconds = time.monotonic() - began
    if watch is not None:
        time.sleep(watch)
    elif not with_probe:
        return of_this_engine(before)
    facts = replace(collect(sources, http), probe=sent)
    return of_this_engine(facts) if watch is None else between(before, facts, watch + probe_seconds)

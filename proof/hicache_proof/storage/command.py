"""``hicache-witness storage``: L3 of a running engine, looked at, attached, detached."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from hicache_exporter.config import DEFAULT_RING_FOLDER
from hicache_exporter.sources.targets import TargetError, parse_target
from hicache_proof.direct_http import direct_client
from hicache_proof.lab.errors import CannotRunError
from hicache_proof.storage import page, work
from hicache_proof.storage.api import StorageApi
from hicache_proof.storage.state import Action, Report
from hicache_proof.storage.work import Wanted
from hicache_proof.terminal import say, stdout

NOT_DONE, NOT_POSSIBLE = 1, 2
INTERRUPTED = 130
STOPPED = "stopped; what the engine was asked to do, it may still do: see `hicache-witness storage status`"
ANSWER_SECONDS = 120.0
"""A backend on the network may take its time to connect."""

EXAMPLES = """\b
Examples:
  hicache-witness storage status --engine 127.0.0.1:30000
  hicache-witness storage attach --engine 127.0.0.1:30000 --admin-key-file key --backend file
  hicache-witness storage detach --engine 127.0.0.1:30000 --admin-key-file key --json
"""
KEY_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("storage", epilog=EXAMPLES)
@click.argument("action", type=click.Choice(("status", "attach", "detach")))
@click.option("--engine", required=True, metavar="URL", help="The SGLang server, host:port or URL.")
@click.option("--admin-key-file", type=KEY_FILE, help="File with the key that the engine got with --admin-api-key.")
@click.option("--api-key-file", type=KEY_FILE, help="File with the key that it got with --api-key, if it did.")
@click.option("--backend", metavar="NAME", help="For attach: file, mooncake, hf3fs, nixl and so on, as the engine has.")
@click.option(
    "--extra-config",
    "hicache_storage_backend_extra_config_json",
    metavar="JSON",
    help="For attach: the engine's --hicache-storage-backend-extra-config.",
)
@click.option(
    "--prefetch-policy",
    "hicache_storage_prefetch_policy",
    type=click.Choice(("best_effort", "wait_complete", "timeout")),
    help="For attach. Default: as it is.",
)
@click.option(
    "--ring-dir",
    default=DEFAULT_RING_FOLDER,
    show_default=True,
    envvar="HICACHE_WITNESS_DIR",
    help="Folder of the flight recorders, which tell of every rank.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def storage(
    action: Action,
    engine: str,
    admin_key_file: Path | None,
    api_key_file: Path | None,
    backend: str | None,
    ring_dir: str,
    as_json: bool,
    **settings: str | None,
) -> None:
    """See, attach or detach the L3 storage backend of a running engine, through its admin API (SGLang 0.5.9+).

    attach and detach wait until the engine is idle, and refuse while it serves anybody: they say whom. Afterwards
    every replica's scheduler is asked what it has, and every rank whose flight recorder is on this machine; ranks
    that differ are named. What L3 holds stays there.

    Exit 0: done, or (status) all parts agree. 1: not done, done on some ranks only, or the parts do not agree.
    2: refused because of traffic, or not possible.
    """
    wanted = _wanted(action, backend, settings)
    try:
        url = parse_target(engine).origin
        with (
            direct_client(api_key_file, answer_seconds=30.0, connect_seconds=5.0) as http,
            direct_client(admin_key_file or api_key_file, answer_seconds=ANSWER_SECONDS, connect_seconds=5.0) as admin,
        ):
            api = StorageApi(url, http, admin)
            report = work.status(api, ring_dir) if action == "status" else work.switch(api, wanted, ring_dir)
    except TargetError as error:
        raise click.UsageError(str(error)) from None
    except (CannotRunError, OSError, UnicodeDecodeError) as error:
        if as_json:
            click.echo(msgspec.json.encode({"error": str(error)}))
        say(f"hicache-witness storage: {error}", err=True)
        sys.exit(NOT_POSSIBLE)
    except KeyboardInterrupt:
        say(f"hicache-witness storage: {STOPPED}", err=True)
        sys.exit(INTERRUPTED)
    _tell(report, as_json)
    sys.exit(0 if report.done else NOT_DONE)


def _wanted(action: Action, backend: str | None, settings: Mapping[str, str | None]) -> Wanted:
    """Raises click.UsageError."""
    wanted = Wanted(backend, {name: value for name, value in settings.items() if value is not None})
    if action == "attach" and wanted.backend is None:
        raise click.UsageError("attach needs --backend, for example --backend file")
    if action != "attach" and (wanted.backend is not None or wanted.settings):
        raise click.UsageError(f"--backend, --extra-config and --prefetch-policy are for attach, not for {action}")
    return wanted


def _tell(report: Report, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        page.show(report, stdout())

"""``hicache-witness serve``: run the sidecar until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import tomllib
from collections.abc import Callable
from pathlib import Path

import click
from aiohttp import web

from hicache_exporter.app import COLLECTORS, App
from hicache_exporter.config import DEFAULT_LISTEN, DEFAULT_RING_FOLDER, Settings, SettingsError, parse_listen
from hicache_exporter.doorkeeper import Doorkeeper
from hicache_exporter.garbage import settle
from hicache_exporter.server import Server
from hicache_exporter.sources.bearer import Bearer
from hicache_exporter.sources.targets import TargetError, parse_target
from hicache_exporter.turns import short_turns
from hicache_exporter.web_config import WebConfigError
from hicache_exporter.web_security import WebSecurity

log = logging.getLogger("hicache_exporter")

EXAMPLES = """\b
Examples:
  hicache-witness serve --engine http://127.0.0.1:30000
  hicache-witness serve --engine 127.0.0.1:30000 --engine 127.0.0.1:30001 --listen 0.0.0.0:9838
  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 hicache-witness serve --engine 127.0.0.1:30000
"""


def _read_config(context: click.Context, _option: click.Parameter, path: Path | None) -> Path | None:
    """Options from a TOML file: below the command line and the environment, above the defaults."""
    if path is None:
        return None
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise click.UsageError(f"config {path}: {error}") from None
    known = {_key(option): option for option in context.command.params if option.name != "config"}
    unknown = sorted(values.keys() - known.keys())
    if unknown:
        raise click.UsageError(f"config {path}: no option {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    try:
        context.default_map = {known[name].name: _fitting(known[name], value) for name, value in values.items()}
    except SettingsError as error:
        raise click.UsageError(f"config {path}: {error}") from None
    return path


def _fitting(option: click.Parameter, value: object) -> bool | str | list[str]:
    """What an option takes from the file. Raises SettingsError."""
    if isinstance(option, click.Option) and option.is_flag:
        if isinstance(value, bool):
            return value
        raise SettingsError(f"{_key(option)} must be true or false, not {value!r}")
    values = value if option.multiple and isinstance(value, list) else [value]
    texts = [text for text in values if isinstance(text, str)]
    if len(texts) < len(values):
        kind = "a list of texts" if option.multiple else "a text"
        raise SettingsError(f"{_key(option)} must be {kind}, not {value!r}")
    return texts if option.multiple else texts[0]


def _key(option: click.Parameter) -> str:
    """How an option is called in the file: as on the command line, without the dashes in front."""
    return option.opts[0].lstrip("-")


def _collector_options(command: Callable[..., None]) -> Callable[..., None]:
    for name in reversed(COLLECTORS):
        switch = f"--collector.{name}/--no-collector.{name}"
        command = click.option(switch, f"collector_{name}", default=True, hidden=True)(command)
    return command


where_to_listen = click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    show_default=True,
    envvar="HICACHE_WITNESS_LISTEN",
    metavar="HOST:PORT",
    help="Where to serve; :PORT is every address of this machine.",
)


@click.command(epilog=EXAMPLES)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="URL",
    envvar="HICACHE_WITNESS_ENGINES",
    help="An SGLang server to read, host:port or URL; may be repeated. Without any, only recorders are followed.",
)
@click.option(
    "--engines-file",
    "engine_files",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Engines in Prometheus's file_sd form (JSON or YAML), read again when the file changes; may be repeated.",
)
@click.option(
    "--ring-dir",
    "--rings",
    "ring_folder",
    default=DEFAULT_RING_FOLDER,
    show_default=True,
    envvar="HICACHE_WITNESS_DIR",
    help="Folder of the flight recorders, as the engine has it in HICACHE_WITNESS_DIR.",
)
@where_to_listen
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the bearer token for engines that ask for one (or set HICACHE_WITNESS_TOKEN).",
)
@click.option(
    "--web.config.file",
    "web_config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="TLS, client certificates and users, in the form of Prometheus's exporter-toolkit; read again on SIGHUP.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_read_config,
    help="TOML file with any of these options; the command line and the environment win over it.",
)
@click.option(
    "--log-level", type=click.Choice(("debug", "info", "warning", "error")), default="info", show_default=True
)
@_collector_options
def serve(
    engines: tuple[str, ...],
    engine_files: tuple[Path, ...],
    ring_folder: str,
    listen: str,
    token_file: Path | None,
    web_config: Path | None,
    log_level: str,
    **switches: bool,
) -> None:
    """Follow the flight recorders, read the engines, and serve /metrics, /proofs and a live page.

    Each collector can be switched off: --no-collector.NAME, where NAME is one of build, hits, transfers, load_backs,
    proofs, recorder, engine, gpu, pcie, host, spans.

    Exit codes: 0 stopped as asked, 1 could not start, 2 wrong usage.
    """
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        host, port = parse_listen(listen)
        settings = Settings(
            engines=tuple(parse_target(text) for text in engines),
            engine_files=engine_files,
            ring_folder=ring_folder,
            host=host,
            port=port,
            bearer=_bearer(token_file),
            off=frozenset(name for name in COLLECTORS if not switches[f"collector_{name}"]),
        )
        security = WebSecurity(web_config)
    except (SettingsError, TargetError, WebConfigError) as error:
        raise click.UsageError(str(error)) from None
    settle()
    short_turns()
    asyncio.run(_run(settings, security))


def _bearer(token_file: Path | None) -> Bearer:
    if token_file is not None:
        return Bearer(file=token_file)
    return Bearer(variable="HICACHE_WITNESS_TOKEN") if os.environ.get("HICACHE_WITNESS_TOKEN") else Bearer()


async def _run(settings: Settings, security: WebSecurity) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, security.reload)
    app = App(settings)
    app.targets.current()  # what is wrong with a file is said now, and not at the first scrape
    runner = web.AppRunner(
        Server(app).application([security.authenticate]),
        access_log=None,
        handle_signals=False,
        shutdown_timeout=0.5,
        max_line_size=8190,
        max_field_size=8190,
    )
    await runner.setup()
    try:
        await listen(runner, settings, security)
        await app.start()
        scheme = "http" if security.context is None else "https"
        rings = settings.ring_folder
        there = "" if os.path.isdir(rings) else " (not there yet: an engine that records makes it)"
        log.info("serving on %s://%s:%d, rings in %s%s", scheme, settings.host or "*", settings.port, rings, there)
        looking = asyncio.create_task(app.look(), name="first look")  # an engine that is not there is in the log
        await stop.wait()
        looking.cancel()
    finally:
        await asyncio.gather(runner.cleanup(), app.stop())
    log.info("stopped")


async def listen(runner: web.AppRunner, settings: Settings, security: WebSecurity) -> None:
    """Raises click.ClickException with what to do."""
    assert runner.server is not None, "it is set up"
    Doorkeeper(runner.server)
    try:
        await web.TCPSite(runner, settings.host or None, settings.port, ssl_context=security.context).start()
    except OSError as error:
        where = f"{settings.host or '*'}:{settings.port}"
        if error.errno == errno.EADDRINUSE:
            raise click.ClickException(f"{where} is in use already: choose another address with --listen") from None
        raise click.ClickException(f"can't listen on {where}: {error.strerror}") from None

"""``hicache-witness replay``: a recorded session served as by a sidecar."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

import click
from aiohttp import web

from hicache_exporter.config import Settings, SettingsError, parse_listen
from hicache_exporter.finite import FiniteRange
from hicache_exporter.replay.player import Player
from hicache_exporter.replay.server import ReplayServer
from hicache_exporter.replay.source import NothingToReplayError, recording
from hicache_exporter.serve import listen as listen_at
from hicache_exporter.serve import where_to_listen
from hicache_exporter.web_security import WebSecurity

EXAMPLES = """\b
Examples:
  hicache-witness replay deploy/sessions/cpu.xz
  hicache-witness replay deploy/sessions/cpu.xz --speed 10 --listen 0.0.0.0:9838
  cp -r /dev/shm/hicache-witness incident && hicache-witness replay incident
"""


@click.command("replay", epilog=EXAMPLES)
@click.argument("recorded", metavar="DIR_OR_FILE", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--speed", type=FiniteRange(0.1, 100), default=1.0, show_default=True, help="So many times as fast as it was."
)
@where_to_listen
def replay(recorded: Path, speed: float, listen: str) -> None:
    """Serve a recorded session as its sidecar did, over and over: dashboards, alerts and verdicts without an engine.

    FILE is a session (*.xz); DIR holds recorded rings (*.ring, *.ring.gz), such as a copy of a ring folder after an
    incident, and perhaps a session. Metrics are those that were recorded. Where there are rings, the sidecar follows
    them as they grow, judges each request anew, and has the live page and /proofs; without recorded metrics it
    serves its own.

    Exit codes: 0 stopped as asked, 1 nothing to replay, or could not listen, 2 wrong usage.
    """
    os.environ["OTEL_TRACES_EXPORTER"] = "none"  # a collector would take old requests for new ones, each round again
    logging.basicConfig(level="WARNING", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        host, port = parse_listen(listen)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    with tempfile.TemporaryDirectory(prefix="hicache-replay-") as folder:
        try:
            player = Player(recording(recorded), speed, Path(folder))
        except NothingToReplayError as error:
            raise click.ClickException(str(error)) from None
        click.echo(f"replaying {recorded} ({player.seconds:.0f} s a round) at http://{host or '*'}:{port}")
        asyncio.run(_run(player, Settings(host=host, port=port)))


async def _run(player: Player, settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    application = ReplayServer(player).application()
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    playing = asyncio.create_task(player.play(), name="play")
    try:
        await listen_at(runner, settings, WebSecurity(None))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((stopping, playing), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
    finally:
        await runner.cleanup()
        playing.cancel()
        with suppress(asyncio.CancelledError):
            await playing

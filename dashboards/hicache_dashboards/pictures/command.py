"""``python dashboards/pictures.py``: the gallery of the README, from a running Prometheus."""

from __future__ import annotations

import time
from pathlib import Path

import click

from hicache_dashboards import config
from hicache_dashboards.boards.catalogue import boards
from hicache_dashboards.pictures.answers import Prometheus, Window
from hicache_dashboards.pictures.draw import picture


@click.command()
@click.argument("prometheus")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("dashboards/gallery"), show_default=True
)
@click.option("--minutes", default=15.0, show_default=True, help="How far to look back from now.")
@click.option("--scrape", default=15.0, show_default=True, help="Scrape interval of that Prometheus, in seconds.")
def main(prometheus: str, out: Path, minutes: float, scrape: float) -> None:
    """Draw every board from the data of PROMETHEUS, the URL of a server."""
    now = time.time()
    out.mkdir(parents=True, exist_ok=True)
    for board in boards(config.load()):
        picture(board, Prometheus(prometheus), Window(now - minutes * 60, now, scrape), out / f"{board.uid}.png")
        click.echo(out / f"{board.uid}.png")

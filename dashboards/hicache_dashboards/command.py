"""``hicache-witness rules``: the alert and recording rules, with the thresholds of your choice."""

from __future__ import annotations

import click

from hicache_dashboards import config, rulefile

KINDS = {"all": rulefile.both, "recording": rulefile.recording_file, "alerts": rulefile.alert_file}


@click.command()
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="A threshold, e.g. ttft.regression=2.")
@click.option("--only", type=click.Choice(list(KINDS)), default="all", show_default=True, help="Which rules to print.")
@click.option("--list", "listing", is_flag=True, help="Print the thresholds and what they mean, and stop.")
def rules(overrides: tuple[str, ...], only: str, listing: bool) -> None:
    """Print Prometheus recording rules and alerts."""
    if listing:
        click.echo(config.text(), nl=False)
        return
    try:
        settings = config.load(overrides)
    except config.SettingError as error:
        raise click.UsageError(str(error)) from error
    click.echo(rulefile.to_yaml(KINDS[only](settings)), nl=False)

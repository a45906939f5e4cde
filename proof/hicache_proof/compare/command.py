"""``hicache-witness compare``: two files in, one answer out."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from hicache_proof.compare.comparison import Comparison, compare
from hicache_proof.compare.side import Side, read
from hicache_proof.compare.tables import Table, tables
from hicache_proof.terminal import say, stdout
from hicache_proof.verify import UnreadableError

NO_WORSE, WORSE, UNREADABLE = 0, 1, 2

EXAMPLES = """\b
Examples:
  hicache-witness compare before/report.json after/report.json
  hicache-witness compare before/report.json after/report.json --markdown >> comment.md
  hicache-witness compare good/certificate.json now/certificate.json --json
"""


@click.command("compare", epilog=EXAMPLES)
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--markdown", is_flag=True, help="Print tables for an issue tracker.")
def command(a: Path, b: Path, as_json: bool, markdown: bool) -> None:
    """Hold two results of the lab (report.json) or two certificates against each other; A is the one before.

    Times are compared only where model, lengths and machine are the same; else it is said why not.

    B is worse if its verdict stands later in this list: corroborated, proven, consistent, not_observed, no_read,
    contradicted; or if its content is damaged and A's is not. Slower alone is not worse.

    A certificate that does not hold (see verify) is good for nothing, on either side.

    Exit code 0: B is no worse. 1: B is worse, or a certificate does not hold. 2: a file can't be read.
    """
    if as_json and markdown:
        raise click.UsageError("take --json or --markdown, not both")
    found = compare(_side(a), _side(b))
    if as_json:
        click.echo(msgspec.json.encode(found))
    elif markdown:
        say(_markdown(found))
    else:
        _show(found, stdout())
    sys.exit(NO_WORSE if _good(found) else WORSE)


def _good(found: Comparison) -> bool:
    return not found.worse and not found.doubts


def _side(file: Path) -> Side:
    try:
        return read(file.read_bytes())
    except OSError as error:
        say(f"hicache-witness compare: {file}: {error.strerror}", err=True)
    except UnreadableError as error:
        say(f"hicache-witness compare: {file} can't be compared: {error}", err=True)
    sys.exit(UNREADABLE)


def _notes(found: Comparison) -> list[str]:
    return [*found.doubts, *(f"times are not comparable: {why}" for why in found.incomparable)]


def _show(found: Comparison, console: Console) -> None:
    console.print(Text(found.sentence, style="bold green" if _good(found) else "bold red"))
    for note in _notes(found):
        console.print(Text(note, style="yellow"))
    for table in tables(found):
        console.print()
        console.print(_rich(table))


def _rich(table: Table) -> RichTable:
    made = RichTable(title=table.title, title_justify="left", show_edge=False, pad_edge=False, header_style="bold")
    for column in table.head:
        made.add_column(column)
    for row in table.rows:
        made.add_row(*map(Text, row))
    return made


def _markdown(found: Comparison) -> str:
    lines = [f"## {found.sentence}", "", *(f"- {note}" for note in _notes(found))]
    for table in tables(found):
        lines += ["", f"### {table.title}", "", _line(table.head), "|" + "---|" * len(table.head)]
        lines += [_line(row) for row in table.rows]
    return "\n".join(lines)


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

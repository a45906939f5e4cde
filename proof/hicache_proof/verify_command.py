"""``hicache-witness verify``: does this certificate hold?"""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from hicache_proof.terminal import say
from hicache_proof.verify import UnreadableError, Verification, verify

HOLDS, DIFFERS, UNREADABLE = 0, 1, 2


@click.command("verify")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def command(context: click.Context, file: Path, as_json: bool) -> None:
    """Work out digest and verdict of a certificate again, from the evidence in FILE and by the rules of this release.

    A certificate that holds was not changed by mistake, and its verdict follows from its evidence. It is not signed:
    who issued it, and whether the evidence is true, it can't tell.

    Exit code 0: it holds. 1: something differs. 2: not readable.
    """
    try:
        verification = verify(file.read_bytes())
    except OSError as error:
        say(f"{file}: {error.strerror}", err=True)
        context.exit(UNREADABLE)
    except UnreadableError as error:
        say(f"{file} is not a certificate that can be read here: {error}", err=True)
        context.exit(UNREADABLE)
    if as_json:
        click.echo(msgspec.json.encode({"holds": verification.holds, **msgspec.to_builtins(verification)}).decode())
    else:
        say(_text(verification))
    context.exit(HOLDS if verification.holds else DIFFERS)


def _text(verification: Verification) -> str:
    outcome = f"verdict {verification.verdict}, content {verification.content}"
    if verification.holds:
        return f"The certificate on request {verification.request_id} holds: {outcome}."
    lines = [f"The certificate on request {verification.request_id} does not hold. Its evidence gives: {outcome}."]
    lines += [f"  {difference}" for difference in verification.differences]
    return "\n".join([*lines, f"It was issued by hicache-witness {verification.issued_by}."])

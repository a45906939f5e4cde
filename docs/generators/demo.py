"""What ``make demo`` printed, in the pages that show it, and the picture of its report. Taken at a quiet time."""

from __future__ import annotations

import subprocess
import tempfile
from io import StringIO
from pathlib import Path

import msgspec
from PIL import Image
from rich.console import Console

from hicache_proof.lab.run import LabRun
from hicache_proof.report.console import print_run
from hicache_proof.terminal import PIPE_WIDTH

from .markdown import between

PAGES = {
    Path("README.md"): ("summary",),
    Path("docs/tutorial.md"): ("series", "witnesses"),
    Path("docs/tutorial.ru.md"): ("series",),
}
PICTURE = Path("docs/pictures/demo-report.png")
WIDTH, HEIGHT, SCALE = 1080, 1086, 2
"""CSS pixels, and how many of the picture's to one of them."""
COLOURS = 64


def show(run: Path, root: Path) -> None:
    """``run``: the folder that the demo wrote into. Raises OSError and CalledProcessError."""
    told = printed(msgspec.json.decode((run / "report.json").read_bytes(), type=LabRun))
    for page, parts in PAGES.items():
        text = (root / page).read_text("utf-8")
        for part in parts:
            text = between(text, f"demo-{part}", f"```\n{told[part]}\n```")
        (root / page).write_text(text, "utf-8")
    draw(run / "report.html", root / PICTURE)


def printed(run: LabRun) -> dict[str, str]:
    """The terminal's output in parts, without the blanks at the ends of its lines."""
    sheet = StringIO()
    print_run(run, Console(file=sheet, width=PIPE_WIDTH))
    text = "\n".join(line.rstrip() for line in sheet.getvalue().splitlines())
    series, witnesses, rest = text.split("\n\n", 2)
    sentence = rest.partition(".\n")[0]
    return {"series": series, "witnesses": witnesses, "summary": f"{series}\n...\n{sentence}."}


def draw(page: Path, picture: Path) -> None:
    """The top of the report, as Debian's chromium shows it."""
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={WIDTH},{HEIGHT}",
        ]
        options += [f"--force-device-scale-factor={SCALE}", f"--screenshot={shot}"]
        command = ["chromium", *options, page.resolve().as_uri()]
        subprocess.run(command, capture_output=True, timeout=120, check=True)
        with Image.open(shot) as image:
            image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(picture, optimize=True)

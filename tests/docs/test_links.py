"""Every link of the documentation leads somewhere, and no page names what a reader can't have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("dashboards/runbooks/*.md")],
    key=lambda path: path.relative_to(ROOT),
)
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)


def text(page: Path) -> str:
    """The page without its code blocks."""
    return FENCE.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """The ids that headings get: lower case, blanks to dashes, no punctuation."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(text(page))}


def broken(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    return not file.exists() or bool(anchor and anchor not in anchors(file))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    local = [target for target in LINK.findall(text(page)) if not re.match(r"[a-z]+:", target)]
    assert [target for target in local if broken(page, target)] == []


def test_a_link_to_a_file_or_heading_that_is_not_there_is_noticed() -> None:
    readme = ROOT / "README.md"
    assert broken(readme, "docs/nowhere.md")
    assert broken(readme, "docs/concepts.md#nowhere")
    assert not broken(readme, "docs/concepts.md#witnesses")


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        targets = [target.partition("#")[0] for target in LINK.findall(text(page)) if not re.match(r"[a-z]+:", target)]
        found = [(page.parent / target).resolve() for target in targets if target]
        waiting += [path for path in (path / "README.md" if path.is_dir() else path for path in found) if path.exists()]
    assert {str(page.relative_to(ROOT)) for page in PAGES if page not in reached} == set()


def test_pictures_are_light_enough_to_be_looked_at() -> None:
    pictures = list((ROOT / "docs/pictures").iterdir())
    assert pictures
    assert {picture.name for picture in pictures if picture.stat().st_size > 300_000} == set()

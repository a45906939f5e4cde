"""The page that a colleague opens who has never heard of the tool."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from hicache_proof.report import html

VOID = {"meta", "circle", "rect", "line", "path", "br", "link", "img", "input"}


class Outline(HTMLParser):
    """Checks that tags nest, and gathers text and references."""

    def __init__(self, page):
        super().__init__()
        self.open, self.texts, self.references = [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.references += [value for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


@pytest.fixture
def page(proven):
    return html.render(proven)


def test_it_needs_nothing_from_outside(page):
    outline = Outline(page)
    assert outline.references == []
    assert "<script" not in page
    assert "url(" not in page
    assert "@import" not in page


def test_all_that_can_be_asked_for_is_on_the_page(everything):
    page = html.render(everything)
    text = Outline(page).text
    assert page.count("<svg") == 5, "two timelines, TTFT, two curves"
    assert everything.storage.sentence in text
    assert everything.lengths.break_even.sentence in text
    for heading in ("From storage to first token", "Several requests at once", "Do the answers stay right?"):
        assert heading in text
    assert "3 of 3 recalled before the eviction" in text
    assert "accepts 2.50 tokens a step before (B) and 2.50 after (C)" in text
    assert 'class="l3"' in page


def test_what_was_not_asked_for_is_not_on_the_page(page):
    for absent in ("From storage", "From which length", "Several requests", 'class="l3"'):
        assert absent not in page


def test_the_verdict_comes_first(page, proven):
    text = Outline(page).text
    assert text.index(proven.outcome.sentence) < text.index("What was asked")


def test_every_witness_is_there_with_its_words(page, proven):
    text = Outline(page).text
    for witness in proven.deciding.judgement.witnesses:
        assert witness.name in text
        assert witness.says in text


def test_it_shows_both_pictures_the_evidence_and_how_to_repeat_it(page, proven):
    assert page.count("<svg") == 2
    text = Outline(page).text
    assert '"request_id"' in text
    assert proven.command in text
    assert "--api-key (redacted)" in text


def test_light_dark_and_paper_are_provided_for(page):
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_what_the_recorder_did_not_see_is_not_drawn(unwatched):
    page = html.render(unwatched)
    assert page.count("<svg") == 1
    assert "Not drawn: no sidecar at" in Outline(page).text
    assert "consistent with reuse" in Outline(page).text


@pytest.mark.parametrize(("fixture", "tone"), [("proven", "good"), ("damaged", "bad"), ("unwatched", "warn")])
def test_the_colour_follows_the_outcome(request, fixture, tone):
    assert f'class="verdict {tone}"' in html.render(request.getfixturevalue(fixture))


def test_it_never_claims_more_than_was_seen(unwatched):
    text = Outline(html.render(unwatched)).text.lower()
    assert "offload proven" not in text
    assert not re.search(r"(?<!not )proven: series c", text)


def test_text_of_others_cannot_become_markup(proven):
    evil = replace(proven, engine=replace(proven.engine, model="<script>alert(1)</script>"))
    assert "<script>alert" not in html.render(evil)

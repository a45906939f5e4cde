"""The live page as people see it: in a real browser, light and dark, on a phone and on a desk."""

import re
import shutil
import time

import pytest

from hicache_tracing.records import ContentMode, Kind

from ..scribe import RingFile
from .chromium import chromium

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="Debian's chromium is not installed"),
]
SCREENS = {"phone": (390, 844), "desk": (1440, 900)}
READABLE = 4.5
"""Contrast of text, as WCAG 2 asks for at level AA."""
TOO_WIDE = """[...document.querySelectorAll("body *")]
    .filter((one) => one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 200))"""
PALE = """(() => {
    const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
        .map((one) => one <= .03928 ? one / 12.92 : ((one + .055) / 1.055) ** 2.4)
        .reduce((sum, one, at) => sum + one * [.2126, .7152, .0722][at], 0);
    const ground = (one) => {
        const [r, g, b, alpha = 1] = rgb(getComputedStyle(one).backgroundColor);
        return alpha || !one.parentElement ? [r, g, b] : ground(one.parentElement);
    };
    const contrast = (one) => {
        const [a, b] = [light(rgb(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
        return (a + .05) / (b + .05);
    };
    const said = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && /\\w{2}/.test(node.data));
    return [...document.querySelectorAll("body *")].filter((one) => said(one) && one.offsetParent)
        .map((one) => [contrast(one), one.textContent.slice(0, 60)]).filter(([found]) => found < LEAST);
})()""".replace("LEAST", str(READABLE))


@pytest.fixture
def served(sidecar, rings):
    """A sidecar that has judged a read of L2 whose content is intact."""
    written = RingFile(rings)

    def story():
        written.now_ns = time.monotonic_ns()
        written.cold_request("a", node=7)
        written.demote(7, 300)
        written.host_request("the-request-that-read-l2", node=7)
        written.write(Kind.CONTENT, transfer_id=100, checked=299, mode=ContentMode.FULL, layers=4)

    return story


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
async def test_the_page_shows_a_read_of_l2_with_its_witnesses(sidecar, served, tmp_path, screen, dark):
    async with sidecar() as client, chromium(tmp_path / "profile") as tab:
        served()
        home = str(client.make_url("/"))
        await tab.screen(*SCREENS[screen], dark=dark)
        await tab.tell("Page.navigate", url=home)
        await tab.until('document.querySelector("#proofs .corroborated") !== null')
        assert await tab.value('document.querySelector("#engines").innerText.includes("127.0.0.1:30000")')
        await tab.value('document.querySelector("a.id[title=the-request-that-read-l2]").click()')
        await tab.until('!document.querySelector("#proof").hidden')
        told = await tab.value('document.querySelector("#proof").innerText')
        assert re.search(r"corroborated.*content intact", told, re.DOTALL)
        assert re.search(r"provenance\s+supports", told)
        assert await tab.value('document.querySelectorAll("#proof svg *, #proof .timeline *").length') > 10
        wide = await tab.value(TOO_WIDE)
        assert not wide, wide
        pale = await tab.value(PALE)
        assert not pale, pale
        ground = await tab.value("getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, re.findall(r"\d+", ground)[:3])) < 64) == dark
        assert await tab.value("document.title") == "hicache-witness"
    assert tab.complaints == []
    assert {address for address in tab.asked if not address.startswith((home, "data:"))} == set()


async def test_a_sidecar_that_is_gone_is_said_and_what_was_shown_stays(sidecar, served, tmp_path):
    async with chromium(tmp_path / "profile") as tab:
        async with sidecar() as client:
            served()
            await tab.tell("Page.navigate", url=str(client.make_url("/")))
            await tab.until('document.querySelector("#proofs .corroborated") !== null')
        await tab.until('document.querySelector("#contact").innerText.includes("no contact")')
        assert await tab.value('document.querySelector("#proofs .corroborated") !== null')

"""The link of every alert leads to its runbook, and the sidecar is where it leads."""

import re
from urllib.parse import urljoin, urlsplit

import pytest

from hicache_dashboards import config, rulefile, runbook
from hicache_exporter.config import DEFAULT_LISTEN

LINKS = {
    rule["alert"]: rule["annotations"]["runbook_url"]
    for group in rulefile.alert_file(config.load())["groups"]
    for rule in group["rules"]
}


@pytest.mark.parametrize(
    "path", ["/runbooks/NoSuchAlert", "/runbooks/..%2FREADME", "/runbooks/README.md", f"/runbooks/{'a' * 300}"]
)
async def test_what_is_no_runbook_is_not_found(sidecar, rings, path):
    from yarl import URL

    async with sidecar() as client, client.get(URL(path, encoded=True)) as answer:
        assert answer.status == 404


async def test_every_alert_leads_to_its_page(sidecar, rings):
    assert {urlsplit(link).port for link in LINKS.values()} == {int(DEFAULT_LISTEN.rpartition(":")[2])}
    async with sidecar() as client:
        for alert, link in LINKS.items():
            async with client.get(urlsplit(link).path) as answer:
                assert answer.status == 200, link
                assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
                text = await answer.text()
            assert f"<h1>{alert}</h1>" in text
            assert f"<title>{alert}: runbook" in text
            assert "<h2>Mitigation</h2>" in text


async def test_the_index_leads_to_every_page_and_runs_nothing(sidecar, rings):
    async with sidecar() as client, client.get("/runbooks/") as answer:
        text = await answer.text()
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none';")
        for link in set(re.findall(r'(?:href|src)="([^"#]+)"', text)) - {"data:,"}:
            async with client.get(urljoin("/runbooks/", link)) as answer:
                assert answer.status == 200, link
    assert LINKS.keys() <= set(re.findall(r'<a href="(\w+)">', text))
    assert "<title>Runbooks" in text
    assert "<script" not in text


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("[a](HiCacheL2Inert.md)", '<a href="HiCacheL2Inert">a</a>'),
        ("[a](HiCacheL2Inert.md#impact)", '<a href="HiCacheL2Inert#impact">a</a>'),
        ("[a](https://example.org/b)", '<a href="https://example.org/b">a</a>'),
        ("[a](../only/in/a/checkout.toml)", "a"),
        ("[a](javascript:alert)", "[a](javascript:alert)"),
        ("[**a** b](data:text/html,c)", "[<strong>a</strong> b](data:text/html,c)"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
    ],
)
def test_links_lead_somewhere_and_html_stays_text(written, shown):
    assert runbook.body(written) in (f"<p>{shown}</p>\n", shown)


def test_the_link_can_lead_elsewhere():
    elsewhere = config.load(["links.runbook=https://wiki.example/{alert}"])
    rules = [rule for group in rulefile.alert_file(elsewhere)["groups"] for rule in group["rules"]]
    assert {rule["annotations"]["runbook_url"] for rule in rules} == {
        f"https://wiki.example/{alert}" for alert in LINKS
    }

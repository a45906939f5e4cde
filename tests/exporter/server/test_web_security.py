"""TLS, client certificates and users, from a web config file."""

import base64
import shutil
import ssl
import subprocess
from contextlib import asynccontextmanager

import aiohttp
import bcrypt
import pytest
from aiohttp.test_utils import TestServer

from hicache_exporter.app import App
from hicache_exporter.config import Settings
from hicache_exporter.server import Server
from hicache_exporter.web_config import WebConfigError, read_web_config
from hicache_exporter.web_security import WebSecurity


def hashed(password):
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


@pytest.fixture
def config(tmp_path):
    """Writes a web config and returns its path."""

    def write(text):
        path = tmp_path / "web.yml"
        path.write_text(text)
        return path

    return write


@asynccontextmanager
async def serving(security, rings):
    app = App(Settings(ring_folder=str(rings), off=frozenset(("gpu", "pcie", "host"))))
    server = TestServer(Server(app).application([security.authenticate]))
    await server.start_server(ssl=security.context)
    try:
        yield server
    finally:
        await server.close()


async def status(server, path="/-/healthy", **options):
    async with aiohttp.ClientSession() as session, session.get(server.make_url(path), **options) as answer:
        await answer.read()
        return answer.status


def user(name, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


# -- users -------------------------------------------------------------------------------------------------------


async def test_without_a_web_config_everybody_may_ask(rings):
    async with serving(WebSecurity(None), rings) as server:
        assert await status(server, "/proofs") == 200


async def test_only_known_users_with_their_password_may_ask(rings, config):
    security = WebSecurity(config(f"basic_auth_users:\n  anna: {hashed('secret')}\n"))
    async with serving(security, rings) as server:
        assert await status(server, "/proofs") == 401
        for _ in range(2):  # the second time from memory
            assert await status(server, "/proofs", headers=user("anna", "secret")) == 200
        assert await status(server, "/proofs", headers=user("anna", "wrong")) == 401
        assert await status(server, "/proofs", headers=user("berta", "secret")) == 401
        # what an unknown user's password is held against, so that the answer takes as long
        assert await status(server, "/proofs", headers=user("berta", "nobody")) == 401
        assert await status(server, "/metrics") == 401
        assert await status(server, "/") == 401


@pytest.mark.parametrize("header", ["Basic", "Basic !!!", "Basic /w==", "Bearer token", "basic Og=="])
async def test_any_other_header_is_nobody(rings, config, header):
    security = WebSecurity(config(f"basic_auth_users:\n  anna: {hashed('secret')}\n"))
    async with serving(security, rings) as server:
        assert await status(server, headers={"Authorization": header}) == 401


async def test_users_can_be_changed_while_it_runs(rings, config):
    path = config(f"basic_auth_users:\n  anna: {hashed('old')}\n")
    security = WebSecurity(path)
    async with serving(security, rings) as server:
        assert await status(server, "/proofs", headers=user("anna", "old")) == 200
        path.write_text(f"basic_auth_users:\n  anna: {hashed('new')}\n")
        security.reload()
        assert await status(server, "/proofs", headers=user("anna", "old")) == 401
        assert await status(server, "/proofs", headers=user("anna", "new")) == 200


async def test_a_bad_file_leaves_the_last_good_one_in_use(rings, config, caplog):
    path = config(f"basic_auth_users:\n  anna: {hashed('old')}\n")
    security = WebSecurity(path)
    path.write_text("basic_auth_users: nonsense")
    security.reload()
    assert "was not read again" in caplog.text
    async with serving(security, rings) as server:
        assert await status(server, "/proofs", headers=user("anna", "old")) == 200
        assert await status(server, "/proofs") == 401


# -- certificates ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """A CA, a server and a client certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=test ca")
    names = {"server": "subjectAltName=DNS:localhost,IP:127.0.0.1", "client": "subjectAltName=DNS:client"}
    for name, alternative in names.items():
        openssl("req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.crt", "-subj", f"/CN={name}",
                "-addext", alternative, "-CA", "ca.crt", "-CAkey", "ca.key")  # fmt: skip
    return folder


def tls(certificates, extra=""):
    path = certificates / "web.yml"
    path.write_text(f"tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n{extra}")
    return path


def trusting(certificates, client=False):
    context = ssl.create_default_context(cafile=certificates / "ca.crt")
    if client:
        context.load_cert_chain(certificates / "client.crt", certificates / "client.key")
    return context


async def test_the_server_speaks_tls(rings, certificates):
    async with serving(WebSecurity(tls(certificates)), rings) as server:
        assert server.scheme == "https"
        assert await status(server, "/proofs", ssl=trusting(certificates)) == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await status(server, "/proofs")


async def test_clients_may_have_to_show_a_certificate(rings, certificates):
    extra = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"
    async with serving(WebSecurity(tls(certificates, extra)), rings) as server:
        assert await status(server, "/proofs", ssl=trusting(certificates, client=True)) == 200
        with pytest.raises(aiohttp.ClientError):
            await status(server, "/proofs", ssl=trusting(certificates))


async def test_old_protocols_are_refused(rings, certificates):
    async with serving(WebSecurity(tls(certificates, "  min_version: TLS13\n")), rings) as server:
        old = trusting(certificates)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(aiohttp.ClientError):
            await status(server, "/proofs", ssl=old)


# -- files that are no good --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("basic_auth_users: {anna: plain}", "no bcrypt hash"),
        ("tls_server_config: {cert_file: a}", "key_file"),
        ("tls_server_config: {cert_file: a, key_file: b, nonsense: c}", "nonsense"),
        ("unknown: 1", "unknown"),
        ("[", "no YAML"),
    ],
)
def test_a_bad_file_is_one_sentence(config, text, says):
    with pytest.raises(WebConfigError, match=says):
        read_web_config(config(text))


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(WebConfigError, match="No such file"):
        read_web_config(tmp_path / "none.yml")


@pytest.mark.parametrize("there", [(), ("a.crt",), ("a.crt", "a.key")])
def test_a_missing_certificate_is_one_sentence_that_names_it(config, there):
    path = config("tls_server_config: {cert_file: a.crt, key_file: a.key, client_ca_file: ca.crt}")
    for name in there:
        path.with_name(name).touch()
    missing = ("a.crt", "a.key", "ca.crt")[len(there)]
    with pytest.raises(WebConfigError, match=f"can't read {path.with_name(missing)}.*No such file"):
        WebSecurity(path)


def test_certificates_that_are_none_are_one_sentence(config):
    path = config("tls_server_config: {cert_file: a.crt, key_file: a.key}")
    for name in ("a.crt", "a.key"):
        path.with_name(name).write_text("none")
    with pytest.raises(WebConfigError, match=r"can't load the certificates a\.crt, a\.key in"):
        WebSecurity(path)


def test_asking_for_client_certificates_needs_a_ca(config):
    with pytest.raises(WebConfigError, match="needs a client_ca_file"):
        WebSecurity(
            config("tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAndVerifyClientCert}")
        )


def test_an_empty_file_asks_for_nothing(config):
    security = WebSecurity(config(""))
    assert security.context is None

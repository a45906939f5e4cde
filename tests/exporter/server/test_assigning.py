"""Which ring belongs to which engine, and where the sidecar listens."""

import pytest

from hicache_exporter.assigning import assign_to, is_local
from hicache_exporter.config import SettingsError, parse_listen
from hicache_exporter.core.identity import parse_identity
from hicache_exporter.sources.targets import parse_target

from ..scribe import IDENTITY


def identity(host="127.0.0.1", port=30000):
    return parse_identity({**IDENTITY, "host": host, "port": port})


def assign(*engines):
    targets = [parse_target(engine) for engine in engines]
    return assign_to(lambda: targets, named=bool(engines))


def test_without_named_engines_each_ring_is_its_own_engines():
    assert assign()(identity(port=30001)) == "127.0.0.1:30001"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "localhost", "127.0.0.1"])
def test_an_engine_that_listens_everywhere_answers_here(host):
    assert assign()(identity(host)) == "127.0.0.1:30000"
    assert assign("127.0.0.1:30000")(identity(host)) == "127.0.0.1:30000"
    assert assign("localhost:30000")(identity(host)) == "localhost:30000"


def test_a_ring_of_an_engine_that_was_not_named_is_nobodys():
    assert assign("127.0.0.1:30000")(identity(port=30001)) is None


def test_of_engines_on_one_port_the_one_on_this_machine_has_the_ring():
    assert assign("198.51.100.1:30000", "127.0.0.1:30000")(identity("0.0.0.0")) == "127.0.0.1:30000"
    assert assign("198.51.100.1:30000", "198.51.100.2:30000")(identity("0.0.0.0")) is None


def test_the_only_engine_on_a_port_may_go_by_any_name():
    """In containers the sidecar knows the engine by a name that is no address of its own."""
    assert assign("engine-cpu.invalid:30000")(identity("0.0.0.0")) == "engine-cpu.invalid:30000"
    assert assign("engine-cpu.invalid:30000")(identity("198.51.100.7")) is None


def test_the_address_that_the_engine_itself_names_wins():
    assert assign("127.0.0.1:30000", "198.51.100.1:30000")(identity("198.51.100.1")) == "198.51.100.1:30000"


def test_what_can_be_listened_on_is_local():
    assert is_local("127.0.0.5")
    assert not is_local("198.51.100.1")
    assert not is_local("no-such-host.invalid")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9838", ("127.0.0.1", 9838)),
        (":9838", ("", 9838)),
        ("[::1]:9838", ("::1", 9838)),
        ("host.name:0", ("host.name", 0)),
    ],
)
def test_addresses_to_listen_on(text, address):
    assert parse_listen(text) == address


@pytest.mark.parametrize("text", ["", "9838", "host:", "host:port", "host:70000", "::1:9838"])
def test_no_addresses_to_listen_on(text):
    with pytest.raises(SettingsError):
        parse_listen(text)

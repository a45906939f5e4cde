"""Options of ``serve``: command line before environment before file before default."""

import click
import pytest
from click.testing import CliRunner

from hicache_exporter import serve as module
from hicache_exporter.app import COLLECTORS


@pytest.fixture
def serve(monkeypatch):
    """Runs the command without starting anything; returns the settings it would start with."""
    asked = []

    async def run(settings, security):
        asked.append(settings)

    monkeypatch.setattr(module, "_run", run)

    def call(*arguments, **variables):
        environment = {"HICACHE_WITNESS_DIR": None, "HICACHE_WITNESS_LISTEN": None, "HICACHE_WITNESS_TOKEN": None}
        done = CliRunner().invoke(module.serve, arguments, env={**environment, **variables}, catch_exceptions=False)
        if done.exit_code:
            raise click.UsageError(done.output)
        return asked[-1]

    return call


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "witness.toml"
    path.write_text(
        'listen = "127.0.0.1:3"\nring-dir = "/from/file"\nengine = ["a:1", "b:2"]\n"collector.gpu" = false\n'
    )
    return str(path)


def test_the_defaults(serve):
    settings = serve()
    assert (settings.host, settings.port, settings.ring_folder) == ("127.0.0.1", 9838, "/dev/shm/hicache-witness")
    assert (settings.engines, settings.off, settings.names_engines) == ((), frozenset(), False)


def test_a_file_sets_any_option(serve, config):
    settings = serve("--config", config)
    assert (settings.port, settings.ring_folder) == (3, "/from/file")
    assert [target.engine for target in settings.engines] == ["a:1", "b:2"]
    assert settings.off == {"gpu"}


def test_the_environment_wins_over_the_file(serve, config):
    settings = serve("--config", config, HICACHE_WITNESS_LISTEN="127.0.0.1:2", HICACHE_WITNESS_DIR="/from/environment")
    assert (settings.port, settings.ring_folder) == (2, "/from/environment")


def test_the_command_line_wins_over_all(serve, config):
    settings = serve(
        "--config", config, "--listen", "127.0.0.1:1", "--collector.gpu", HICACHE_WITNESS_LISTEN="127.0.0.1:2"
    )
    assert (settings.port, settings.off) == (1, frozenset())


def test_an_unknown_option_in_the_file_is_told_with_those_that_there_are(serve, tmp_path):
    path = tmp_path / "witness.toml"
    path.write_text("listne = 1")
    with pytest.raises(click.UsageError, match="no option listne; there are collector"):
        serve("--config", str(path))


@pytest.mark.parametrize("text", ["listen =", b"\xff"])
def test_a_file_that_is_no_toml_is_told(serve, tmp_path, text):
    path = tmp_path / "witness.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(click.UsageError, match="config"):
        serve("--config", str(path))


@pytest.mark.parametrize("name", COLLECTORS)
def test_each_collector_can_be_switched_off(serve, name):
    assert serve(f"--no-collector.{name}").off == {name}


def test_the_help_names_every_collector():
    text = CliRunner().invoke(module.serve, ["--help"]).output
    assert all(name in text for name in COLLECTORS)


def test_several_engines_from_the_environment(serve):
    settings = serve(HICACHE_WITNESS_ENGINES="127.0.0.1:1 127.0.0.1:2")
    assert [target.engine for target in settings.engines] == ["127.0.0.1:1", "127.0.0.1:2"]


def test_the_token_is_never_an_option(serve, tmp_path):
    assert serve().bearer.headers() == {}
    file = tmp_path / "token"
    file.write_text("from-file\n")
    assert serve("--token-file", str(file)).bearer.headers() == {"Authorization": "Bearer from-file"}
    assert serve(HICACHE_WITNESS_TOKEN="x").bearer.variable == "HICACHE_WITNESS_TOKEN"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--listen", "::1:9838"), "brackets"),
        (("--listen", "127.0.0.1:99999"), "write host:port"),
        (("--engine", "http://user:secret@host:1"), "token file"),
        (("--engine", "ftp://host:1"), "use http or https"),
        (("--no-collector.nonsense",), "No such option"),
        (("--web.config.file", "/no/such/file"), "No such file"),
    ],
)
def test_wrong_usage_says_what_to_do(serve, arguments, says):
    with pytest.raises(click.UsageError, match=says):
        serve(*arguments)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('"collector.gpu" = 0', "collector.gpu must be true or false, not 0"),
        ("listen = 9838", "listen must be a text, not 9838"),
        ("engine = [30000]", "engine must be a list of texts, not [30000]"),
    ],
)
def test_a_value_of_another_kind_is_one_sentence(serve, tmp_path, line, says):
    (tmp_path / "witness.toml").write_text(line)
    with pytest.raises(click.UsageError) as refused:
        serve("--config", str(tmp_path / "witness.toml"))
    assert says in str(refused.value)


def test_one_engine_needs_no_list(serve, tmp_path):
    (tmp_path / "witness.toml").write_text('engine = "a:1"')
    assert [target.engine for target in serve("--config", str(tmp_path / "witness.toml")).engines] == ["a:1"]

"""The sidecar as a process: how it starts, how it ends, and what it says when it can't."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from hicache_proof.demo.ports import free_port

from ..scribe import RingFile


def environment(**variables):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "HICACHE_"))}
    return {**clean, **variables}


@contextmanager
def sidecar(rings, *arguments, **variables):
    """A running sidecar: (process, url)."""
    port = free_port()
    command = [sys.executable, "-m", "hicache_exporter", "serve", "--ring-dir", str(rings)]
    process = subprocess.Popen(
        [*command, "--listen", f"127.0.0.1:{port}", *arguments],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(url + "/-/ready", process)
        yield process, url
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def wait_for(url, process):
    deadline = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            assert process.poll() is None, process.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


@pytest.fixture
def rings(tmp_path):
    path = tmp_path / "rings"
    path.mkdir(mode=0o700)
    return path


@pytest.mark.parametrize(("folder", "there"), [("rings", True), ("typo", False)])
def test_a_ring_folder_that_is_not_there_is_said_not_to_be(rings, folder, there):
    with sidecar(rings.parent / folder) as (process, _):
        process.terminate()
        process.wait(timeout=20)
        said = f"rings in {rings.parent / folder}" + (
            "" if there else " (not there yet: an engine that records makes it)"
        )
        assert said + "\n" in process.stdout.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_good_order_when_it_is_told_to(rings, number):
    with sidecar(rings) as (process, _):
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(10) == 0
        assert time.monotonic() - began < 2


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_collector_that_swallows_everything_does_not_hold_it_up(rings, protocol):
    """It accepts the connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as black_hole:
        endpoint = f"http://127.0.0.1:{black_hole.getsockname()[1]}"
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
        with sidecar(rings, **variables) as (process, url):
            written = RingFile(rings)
            for index in range(50):
                written.cold_request(f"r{index}")
            time.sleep(1.5)  # the first batch is on its way
            assert 'hicache_span_export{state="on"} 1.0' in get(url + "/metrics")
            began = time.monotonic()
            process.terminate()
            assert process.wait(10) == 0
            assert time.monotonic() - began < 2


def test_a_waiting_client_does_not_hold_it_up(rings):
    with sidecar(rings) as (process, url):
        client = subprocess.Popen(
            [sys.executable, "-c", f"import urllib.request; urllib.request.urlopen('{url}/proofs/x?wait=60')"],
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.7)
        began = time.monotonic()
        process.terminate()
        assert process.wait(10) == 0
        assert time.monotonic() - began < 2
        client.kill()
        client.wait()


def test_the_multiprocess_folder_of_an_engine_is_left_alone(rings, tmp_path):
    folder = tmp_path / "multiprocess"
    folder.mkdir()
    with sidecar(rings, PROMETHEUS_MULTIPROC_DIR=str(folder)) as (_, url):
        assert "hicache_witness_build_info" in get(url + "/metrics")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:4318"}, "write it with http:// or https:// in front"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "smoke"},
            "use http/protobuf or grpc",
        ),
    ],
)
def test_bad_settings_for_spans_are_one_line_in_the_log_and_a_metric(rings, variables, says):
    with sidecar(rings, **variables) as (process, url):
        assert 'hicache_span_export{state="refused"} 1.0' in get(url + "/metrics")
        process.terminate()
        log = process.stdout.read()
    assert log.count(says) == 1
    assert "Traceback" not in log


def run(*arguments, **variables):
    command = [sys.executable, "-m", "hicache_exporter", *arguments]
    return subprocess.run(
        command, env=environment(**variables), capture_output=True, text=True, timeout=60, check=False
    )


def test_a_port_in_use_is_one_clear_sentence(rings):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--ring-dir", str(rings), "--listen", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert f"Error: 127.0.0.1:{port} is in use already: choose another address with --listen" in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_usage_is_one_clear_sentence():
    done = run("serve", "--listen", "9838")
    assert done.returncode == 2
    assert "write host:port" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_shows_every_option_with_examples():
    done = run("serve", "--help")
    assert done.returncode == 0
    for word in ("--engine", "--ring-dir", "--listen", "Examples:", "Exit codes"):
        assert word in done.stdout


def test_the_list_of_commands_imports_none_of_them():
    code = (
        "import sys; sys.argv = ['hicache-witness', '--help']\n"
        "from hicache_exporter.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted(m for m in sys.modules if m in ('aiohttp', 'prometheus_client', 'opentelemetry', 'httpx')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "serve" in done.stdout
    assert "launch" in done.stdout
    assert "completion" in done.stdout
    assert done.stdout.rstrip().endswith("[]")


def test_an_engines_multiprocess_registry_is_never_joined():
    """prometheus_client decides by the environment, when it is imported."""
    code = (
        "import os, sys; sys.argv = ['hicache-witness', '--help']\n"
        "from hicache_exporter.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "from prometheus_client import values\n"
        "print(values.ValueClass.__name__, 'PROMETHEUS_MULTIPROC_DIR' in os.environ)"
    )
    variables = environment(PROMETHEUS_MULTIPROC_DIR="/nowhere")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=variables)
    assert done.stdout.rstrip().endswith("MutexValue False")


def test_an_engines_file_that_is_bad_and_an_engine_that_is_dead_are_in_the_log_before_anybody_asks(rings, tmp_path):
    (tmp_path / "bad.json").write_text("{bad")
    files = [option for name in ("bad.json", "gone.yml") for option in ("--engines-file", str(tmp_path / name))]
    with sidecar(rings, "--engine", "http://127.0.0.1:1", *files) as (process, _):
        told = []
        while not any("127.0.0.1:1 can't be read" in line for line in told):
            told.append(process.stdout.readline())
            assert told[-1]
    assert "bad.json: not a list of" in told[0]
    assert "gone.yml: No such file" in told[1]
    assert all("WARNING" in line for line in (*told[:2], told[-1]))


def test_an_unknown_command_is_told(rings):
    done = run("nonsense")
    assert done.returncode == 2
    assert "No such command 'nonsense'" in done.stderr
    assert "mean" not in done.stderr


def test_a_misspelt_command_is_told_with_the_one_that_was_meant():
    done = run("docter")
    assert done.returncode == 2
    assert "No such command 'docter'. Did you mean 'doctor'?" in done.stderr


HIDE_CLICK = (
    "import sys\n"
    "class Hidden:\n"
    "    def find_spec(self, name, *_):\n"
    "        if name.partition('.')[0] == 'click': raise ModuleNotFoundError('no click', name='click')\n"
    "sys.meta_path.insert(0, Hidden())\n"
    "from hicache_exporter.cli import main\n"
    "main()\n"
)


def test_without_click_it_says_what_to_install():
    done = subprocess.run(
        [sys.executable, "-c", HIDE_CLICK, "serve"], capture_output=True, text=True, check=False, env=environment()
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install '.[exporter]'" in done.stderr


def test_without_click_launch_works():
    command = ["launch", "--", sys.executable, "-c", "print('started')"]
    done = subprocess.run(
        [sys.executable, "-c", HIDE_CLICK, *command], capture_output=True, text=True, check=False, env=environment()
    )
    assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr


def test_sighup_reads_the_web_config_again_and_a_bad_one_changes_nothing(rings, tmp_path):
    import bcrypt

    web = tmp_path / "web.yaml"
    web.write_text("{}")

    def answers(url):
        try:
            return urllib.request.urlopen(url + "/-/healthy", timeout=5).status
        except urllib.error.HTTPError as refused:
            refused.close()
            return refused.code

    def after_sighup(process, url, text, status):
        web.write_text(text)
        process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 5
        while answers(url) != status:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    with sidecar(rings, "--web.config.file", str(web)) as (process, url):
        after_sighup(process, url, f"basic_auth_users: {{prometheus: {hashed}}}", 401)
        web.write_text("basic_auth_users: {prometheus: plain}")
        process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        assert answers(url) == 401
        after_sighup(process, url, "{}", 200)

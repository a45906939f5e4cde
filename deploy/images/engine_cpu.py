"""Becomes the demo engine, on a fixed port for the other containers: HICACHE_WITNESS_DIR says where the rings go."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hicache_proof.demo.environment import ensure
from hicache_proof.demo.plugin_path import make_plugin_paths
from hicache_proof.demo.spec import EngineSpec, environment_variables, server_arguments

PORT = 30000


def main() -> None:
    spec = EngineSpec(arguments=("--host", os.environ.get("ENGINE_HOST", "0.0.0.0")))
    installed = ensure(spec.version)
    plugin = make_plugin_paths(Path(tempfile.mkdtemp()) / "plugin", installed.release.plugin_loader)
    rings = Path(os.environ["HICACHE_WITNESS_DIR"])
    variables = environment_variables(spec, os.environ, (*plugin, *installed.paths), rings)
    arguments = server_arguments(spec, installed.release, installed.model, int(os.environ.get("ENGINE_PORT", PORT)))
    os.execve(installed.python, [str(installed.python), "-m", "sglang.launch_server", *arguments], variables)


if __name__ == "__main__":
    main()

"""Loaded by every Python process that ``hicache-witness launch`` starts: attaches the plugin, then gives way.

For engines without a plugin loader (SGLang up to 0.5.10), whose scheduler is a spawned process that only the import
system can reach. With a plugin loader the second registration changes nothing.
"""

import importlib.machinery
import importlib.util
import os
import sys


def _next_sitecustomize() -> None:
    """Run the sitecustomize that this one hides, if there is one: of a later folder, so that two never call in turn."""
    folders = [os.path.abspath(path) for path in sys.path]
    later = folders[folders.index(os.path.dirname(os.path.abspath(__file__))) + 1 :]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", later)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


try:
    import hicache_tracing

    hicache_tracing.register()
except Exception as error:
    print(f"hicache-witness: not attached: {error!r}", file=sys.stderr)
_next_sitecustomize()

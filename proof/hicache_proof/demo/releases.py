"""The SGLang releases that the demo engine can be, and what differs between them on a machine without a GPU."""

from __future__ import annotations

from dataclasses import dataclass

NEWEST = "0.5.23"


@dataclass(frozen=True, slots=True)
class Release:
    version: str
    old_transformers: bool = False
    """Registers model types itself that newer transformers know already, and dies of it: needs an older one."""
    one_graph_flag: bool = False
    """Knows ``--disable-cuda-graph``, not yet a backend for each of prefill and decode."""
    plugin_loader: bool = True
    """Loads plugins of the entry-point group ``sglang.srt.plugins``."""

    @property
    def locks(self) -> tuple[str, ...]:
        """Lock files of what this release needs on top of the common environment; the first one wins an import."""
        engine = f"sglang-{self.version}"
        return (engine, "transformers-5.12.1") if self.old_transformers else (engine,)

    @property
    def graph_arguments(self) -> tuple[str, ...]:
        if self.one_graph_flag:
            return ("--disable-cuda-graph",)
        return ("--cuda-graph-backend-decode", "disabled", "--cuda-graph-backend-prefill", "disabled")


RELEASES = {
    release.version: release
    for release in (
        Release("0.5.9", one_graph_flag=True, plugin_loader=False),
        Release("0.5.10", one_graph_flag=True, plugin_loader=False),
        Release("0.5.12", old_transformers=True, one_graph_flag=True),
        Release("0.5.14", old_transformers=True),
        Release("0.5.16", old_transformers=True),
        Release("0.5.18", old_transformers=True),
        Release("0.5.20"),
        Release("0.5.22"),
        Release("0.5.23"),
    )
}

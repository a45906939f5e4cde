"""The variables of every board, each narrowing the next."""

from __future__ import annotations

from hicache_dashboards.grafana import dashboard, models
from hicache_dashboards.promql import sample, select
from hicache_dashboards.queries.vocabulary import TARGET, selection
from hicache_exporter import names

DATASOURCE, TRACES = "datasource", "traces"
PROMETHEUS = models.DataSourceRef(type_val="prometheus", uid=f"${{{DATASOURCE}}}")

_INFO = f'{sample(names.ENGINE_INFO)}{{{TARGET},model=~"$model"}}[$__range]'
_KNOWN = f"{sample(names.ENGINE_INFO)}{{{TARGET}}}[$__range]"
_WATCHED = f"{sample(names.ENGINE_UP)}{{{TARGET}}}[$__range]"
ENGINES = (
    f"last_over_time({_INFO}) or on (instance, engine) "
    f"(last_over_time({_WATCHED}) unless on (instance, engine) last_over_time({_KNOWN}))"
)
"""Engines of the chosen models, and those whose model nobody knows: a dead engine must stay on the board."""

QUERIES = {
    "job": f"label_values({sample(names.BUILD_INFO)}, job)",
    "instance": f'label_values({sample(names.BUILD_INFO)}{{job=~"$job"}}, instance)',
    "model": f"label_values({sample(names.ENGINE_INFO)}{{{TARGET}}}, model)",
    "engine": f"query_result({ENGINES})",
    "rank": f"label_values({select(names.RECORDER_UP, common=selection(names.RECORDER_UP).split(',rank')[0])}, rank)",
}
ANYTHING = {"job": ".+", "instance": ".+", "model": ".*", "rank": ".*"}
"""What "All" stands for. For engines it stays empty: All is then the list above, so that the model narrows it."""


def variables() -> list[dashboard.DatasourceVariable | dashboard.QueryVariable]:
    data = dashboard.DatasourceVariable(DATASOURCE).label("Data source").type("prometheus")
    traces = dashboard.DatasourceVariable(TRACES).label("Traces").type("tempo")
    return [data, traces, *(_query(name, query) for name, query in QUERIES.items())]


def _query(name: str, query: str) -> dashboard.QueryVariable:
    everything = models.VariableOption(selected=True, text="All", value="$__all")
    variable = (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .datasource(PROMETHEUS)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .current(everything)
    )
    if name in ANYTHING:
        variable.all_value(ANYTHING[name])
    if query.startswith("query_result"):
        variable.regex('/engine="([^"]+)"/')
    return variable

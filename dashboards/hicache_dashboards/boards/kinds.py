"""The kinds of panel, with the defaults of the house."""

from __future__ import annotations

import re
from typing import Any

from hicache_dashboards import palette
from hicache_dashboards.boards.model import Panel
from hicache_dashboards.grafana import (
    bargauge,
    common,
    common_models,
    dashboard,
    heatmap,
    heatmap_models,
    models,
    stat,
    statetimeline,
    table,
    timeseries,
)

Builder = Any
"""One of the SDK's panel builders: they share their methods, and no base class that has them."""


def builder(panel: Panel) -> Builder:
    return _KINDS[panel.kind](panel)


def _lines(panel: Panel) -> Builder:
    calcs = ["lastNotNull", "mean", "max"] if panel.span >= 12 else ["lastNotNull"]
    legend = common.VizLegendOptions().show_legend(True).calcs(calcs).placement(common_models.LegendPlacement.BOTTOM)
    legend.display_mode(
        common_models.LegendDisplayMode.TABLE if panel.span >= 12 else common_models.LegendDisplayMode.LIST
    )
    built = (
        timeseries.Panel()
        .legend(legend)
        .tooltip(common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI))
        .color_scheme(_classic())
        .line_width(2)
        .fill_opacity(8)
        .show_points(common_models.VisibilityMode.AUTO)
        .span_nulls(False)
        .axis_soft_min(0)
    )
    _colour_by_meaning(built, panel)
    if panel.maximum is not None:
        built.max(panel.maximum)
    if panel.steps:
        built.thresholds(_thresholds(panel))
        built.thresholds_style(common.GraphThresholdsStyleConfig().mode(common_models.GraphThresholdsStyleMode.DASHED))
    return built


def _stack(panel: Panel) -> Builder:
    return _lines(panel).fill_opacity(70).line_width(0).stacking(_stacking(common_models.StackingMode.NORMAL))


def _percent(panel: Panel) -> Builder:
    return _lines(panel).fill_opacity(70).line_width(0).stacking(_stacking(common_models.StackingMode.PERCENT))


def _stat(panel: Panel) -> Builder:
    coloured = panel.steps or panel.states
    mode = common_models.BigValueColorMode.BACKGROUND_SOLID if coloured else common_models.BigValueColorMode.NONE
    return (
        stat.Panel()
        .reduce_options(_last())
        .color_mode(mode)
        .graph_mode(common_models.BigValueGraphMode.NONE)
        .text_mode(_text_mode(panel))
        .mappings(_mappings(panel))
        .thresholds(_thresholds(panel))
    )


def _text_mode(panel: Panel) -> common_models.BigValueTextMode:
    """A tile of several values shows their names; a tile whose query may return a name shows only that."""
    if len(panel.queries) > 1 or "{{" in panel.queries[0].legend:
        return common_models.BigValueTextMode.VALUE_AND_NAME
    return common_models.BigValueTextMode.VALUE


def _bars(panel: Panel) -> Builder:
    built = (
        bargauge.Panel()
        .reduce_options(_last())
        .orientation(common_models.VizOrientation.HORIZONTAL)
        .display_mode(common_models.BarGaugeDisplayMode.BASIC)
        .mappings(_mappings(panel))
        .thresholds(_thresholds(panel))
        .min(0)
    )
    _colour_by_meaning(built, panel)
    return built


def _heatmap(panel: Panel) -> Builder:
    colour = (
        heatmap.HeatmapColorOptions()
        .mode(heatmap_models.HeatmapColorMode.SCHEME)
        .scheme("Cividis")
        .steps(64)
        .scale(heatmap_models.HeatmapColorScale.EXPONENTIAL)
        .exponent(0.5)
    )
    return (
        heatmap.Panel()
        .color(colour)
        .y_axis(heatmap.YAxisConfig().unit(panel.unit))
        .cell_gap(1)
        .filter_values(heatmap.FilterValueRange().le(1e-9))
        .exemplars_color(palette.RED)
        .show_legend()
    )


def _states(panel: Panel) -> Builder:
    return (
        statetimeline.Panel()
        .mappings(_mappings(panel))
        .thresholds(_thresholds(panel))
        .row_height(0.8)
        .show_value(common_models.VisibilityMode.NEVER)
        .legend(common.VizLegendOptions().show_legend(True).placement(common_models.LegendPlacement.BOTTOM))
    )


def _table(panel: Panel) -> Builder:
    """The labels are the content; of the value and the time nothing is shown unless the value has a threshold."""
    hidden = {"Time": True, **({} if panel.steps or panel.states else {"Value": True})}
    organised = models.DataTransformerConfig(id_val="organize", options={"excludeByName": hidden})
    return (
        table.Panel()
        .filterable(True)
        .with_transformation(organised)
        .mappings(_mappings(panel))
        .thresholds(_thresholds(panel))
    )


_KINDS = {
    "lines": _lines,
    "stack": _stack,
    "percent": _percent,
    "stat": _stat,
    "bars": _bars,
    "heatmap": _heatmap,
    "states": _states,
    "table": _table,
}


def _last() -> common.ReduceDataOptions:
    """``last`` keeps NaN, which is mapped to "no traffic"; ``lastNotNull`` would show an older number instead."""
    return common.ReduceDataOptions().calcs(["last"])


def _mappings(panel: Panel) -> list[models.ValueMapping]:
    result = models.ValueMappingResult
    idle = models.SpecialValueMap(
        options=models.DashboardSpecialValueMapOptions(
            match=models.SpecialValueMatch.NA_N, result=result(text="no traffic", color=palette.NEUTRAL, index=99)
        )
    )
    named = {
        str(state.value): result(text=state.text, color=state.colour, index=index)
        for index, state in enumerate(panel.states)
    }
    return [*([models.ValueMap(options=named)] if named else []), idle]


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    steps = [models.Threshold(value=None if s.at == float("-inf") else s.at, color=s.colour) for s in panel.steps]
    base = [] if steps and steps[0].value is None else [models.Threshold(value=None, color=palette.NEUTRAL)]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps([*base, *steps])


def _stacking(mode: common_models.StackingMode) -> common.StackingConfig:
    return common.StackingConfig().mode(mode).group("A")


def _classic() -> dashboard.FieldColor:
    return dashboard.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC_BY_NAME)


def _colour_by_meaning(built: Builder, panel: Panel) -> None:
    """Tiers, directions, verdicts keep their colour whatever stands beside their name in the legend."""
    colours: dict[str, str] = {}
    for query in panel.queries:
        labels = re.findall(r"\{\{(\w+)\}\}", query.legend)
        for label in labels:
            colours |= palette.BY_LABEL.get(label, {})
        if query.legend in palette.BY_LEGEND:
            colours[query.legend] = palette.BY_LEGEND[query.legend]
        first = query.legend.split(",")[0].split(" ")[0]
        if not labels and first in palette.DIRECTIONS:
            colours[first] = palette.DIRECTIONS[first]
    for name, colour in colours.items():
        fixed = {"mode": "fixed", "fixedColor": colour}
        built.override_by_regexp(f"/^{name}(,? .*)?$/", [models.DynamicConfigValue(id_val="color", value=fixed)])

"""The dashboard, the alert rules and the scrape configuration use metrics that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from afterturn.commands.monitoring import METRICS_PLACE
from afterturn.metrics.catalogue import METRICS, Metric, Source, Type
from tests.support.programs.processes import PROJECT

DEPLOY = PROJECT / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus-alerts.yaml").read_text())
SCRAPES: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())
RULES: list[dict[str, Any]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
SUFFIXES = {
    Type.HISTOGRAM: ("_bucket", "_sum", "_count"),
    Type.GAUGE_HISTOGRAM: ("_bucket", "_gsum", "_gcount"),
}
SAMPLES: dict[str, Metric] = {
    f"{metric.name}{suffix}": metric
    for metric in METRICS
    for suffix in SUFFIXES.get(metric.type, ("",))
}
OF_PROMETHEUS = {"job", "instance", "le"}
PANELS: list[dict[str, Any]] = [one for one in DASHBOARD["panels"] if one["type"] != "row"]
EXPRESSIONS = [
    *(target["expr"] for panel in PANELS for target in panel["targets"]),
    *(rule["expr"] for rule in RULES),
]


def uses(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Metrics of an expression, each with the labels that it is selected by."""
    for name, selector in re.findall(r"\b(afterturn_\w+)(\{[^}]*\})?", expression):
        yield name, set(re.findall(r"(\w+)(?:=~|!~|!=|=)", selector))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_uses_metrics_and_labels_that_exist(expression: str) -> None:
    found = list(uses(expression))
    assert found
    known: set[str] = set(OF_PROMETHEUS)
    for name, selected in found:
        assert name in SAMPLES, name
        labels = set(SAMPLES[name].labels) | OF_PROMETHEUS
        assert selected <= labels
        known |= labels
    for clause in re.findall(r"\b(?:by|on|ignoring|without) \(([^)]*)\)", expression):
        assert {label.strip() for label in clause.split(",") if label.strip()} <= known
    assert expression.count("(") == expression.count(")")
    assert expression.count("{") == expression.count("}")


def test_counters_are_only_used_as_rates() -> None:
    for expression in EXPRESSIONS:
        for name, _ in uses(expression):
            if SAMPLES[name].type in (Type.COUNTER, Type.HISTOGRAM):
                assert re.search(rf"rate\({name}\b[^\[]*\[", expression), expression


def test_the_dashboard_shows_every_metric() -> None:
    shown = {
        SAMPLES[name].name
        for panel in PANELS
        for t in panel["targets"]
        for name, _ in uses(t["expr"])
    }
    without_place = {"afterturn_build_info"}
    assert {metric.name for metric in METRICS} - shown == without_place


def test_panels_have_names_places_and_a_source_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
        assert panel["title"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}
    assert [one["name"] for one in DASHBOARD["templating"]["list"]] == ["datasource", "job"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_says_what_is_wrong_and_what_to_do(rule: dict[str, Any]) -> None:
    assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
    assert rule["alert"].startswith("Afterturn")
    assert re.fullmatch(r"\d+[mh]", rule["for"])
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description"}
    text = " ".join(rule["annotations"].values())
    labels = {label for name, _ in uses(rule["expr"]) for label in SAMPLES[name].labels}
    assert set(re.findall(r"\$labels\.(\w+)", text)) <= labels


def test_every_rule_has_a_name_of_its_own() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)


def test_the_scrape_configuration_asks_where_exporters_answer() -> None:
    [ours, workers] = SCRAPES["scrape_configs"]
    assert ours["static_configs"] == [{"targets": [METRICS_PLACE]}]
    assert workers["job_name"] == "afterturn-workers"
    assert SCRAPES["rule_files"] == ["prometheus-alerts.yaml"]
    assert any(metric.source is Source.WORKER for metric in METRICS)

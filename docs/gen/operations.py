"""Pages for operators: settings, metrics, log lines, exit codes."""

from __future__ import annotations

from itertools import groupby

from docs.gen.markdown import code, page, table
from docs.gen.sources import LOG_LINES, METRICS, Exit, Metric, SettingRow, Source, describe_settings

_BLOCKS = {
    "": "Servers",
    "compression": "compression",
    "auxiliary.compression": "auxiliary.compression",
    "worker": "worker",
    "schedule": "schedule",
    "retention": "retention",
    "prices": "prices",
}
_ABOUT = {
    "": "Both can be given by the environment, which goes before the file.",
    "compression": "What happens to a conversation. Read again between jobs: a change needs no "
    "restart.",
    "auxiliary.compression": "The model that writes summaries. Read again between jobs.",
    "worker": "Read when a worker starts.",
    "schedule": "How often what runs by the clock is looked for.",
    "retention": "How long records are kept. Messages and summaries are never deleted.",
    "prices": "For reports and estimates in money.",
}
_SOURCES = {
    Source.DATABASE: "From the database",
    Source.BROKER: "From the broker",
    Source.WORKER: "From one worker",
}
_SERVED = {
    Source.DATABASE: "Served by `afterturn metrics`, read at each scrape. Counters are kept in "
    "the database: neither a restart nor `retention` sets them back.",
    Source.BROKER: "Served by `afterturn metrics`.",
    Source.WORKER: "Served by a worker that was started with `--metrics HOST:PORT`, together "
    "with the figures of its process.",
}


def settings() -> str:
    """Return the page of all settings."""
    parts = []
    for block, rows in groupby(describe_settings(), key=_block):
        parts += [
            f"## {_BLOCKS.get(block, block)}",
            _ABOUT.get(block, ""),
            table(
                ("key", "allowed", "default", "meaning"),
                [(code(row.key), row.allowed, row.default, row.meaning) for row in rows],
            ),
        ]
    return page(
        "Settings",
        "One YAML file: `--config FILE`, else the one that `AFTERTURN_CONFIG` names, else "
        "`afterturn/config.yaml` in the user's configuration directory. "
        "`afterturn config show-example` prints a commented file with every default; "
        "`afterturn config check` names key, value, allowed range and nearest known key of every "
        "mistake. A file that breaks while workers run leaves the last good one in force, and "
        "the log says so.",
        "From the environment come only `DATABASE_URL`, `BROKER_URL` and the keys of models "
        "(`OPENAI_API_KEY`, `OPENROUTER_API_KEY`). No variable overrides any other setting. "
        "Gateways need the same file as workers, since thresholds are compared on both sides.",
        *(part for part in parts if part),
    )


def metrics() -> str:
    """Return the page of all metrics."""
    parts = []
    for source in Source:
        rows = [_metric(one) for one in METRICS if one.source is source]
        parts += [
            f"## {_SOURCES[source]}",
            _SERVED[source],
            table(("metric", "type", "labels", "meaning"), rows),
        ]
    return page(
        "Metrics",
        "In Prometheus's form. How to serve and scrape them, and which alerts to set, is in "
        "[Monitoring](../howto/monitoring.md).",
        *parts,
    )


def logs() -> str:
    """Return the page of the log lines that report outcomes."""
    rows = [
        (code(line.event.value), line.meaning, ", ".join(map(code, line.fields)))
        for line in LOG_LINES
    ]
    return page(
        "Log lines",
        "Workers and gateways write one line per outcome through Python's `logging`, never with "
        "text of a conversation. `--log-format json` of `afterturn worker` and `afterturn up` "
        "writes each as one JSON object. The `outcome` is one of [these](outcomes.md).",
        "```text\n"
        "run.ended run=1.1 event_id=update-90205 owner=local session=airline-1 kind=turn "
        "trigger=turn queue=turns attempt=1 seconds=0.032 due=1 outcome=done passes=0\n"
        "pass.ended run=7.1 event_id=update-90205 owner=local session=airline-1 kind=micro "
        "outcome=absorbed rows=4 tokens_before=2064 tokens_after=1762\n```",
        "`event_id` is the one of `finalize_turn`, in every line from the gateway to the commit. "
        "`run` names one run of a job: the job and its [fence](../explanation/leases.md). With "
        "traces on, each line has a `trace_id`.",
        table(("line", "meaning", "fields"), rows),
    )


def exit_codes() -> str:
    """Return the page of the command line's exit codes."""
    return page(
        "Exit codes",
        "How every [command](cli.md) ends. A code never changes its meaning.",
        table(("code", "name", "meaning"), [(str(c.value), c.name, c.meaning) for c in Exit]),
    )


def _block(row: SettingRow) -> str:
    return row.key.rpartition(".")[0]


def _metric(one: Metric) -> tuple[str, str, str, str]:
    return code(one.name), str(one.type), ", ".join(one.labels), one.help

"""Every benchmark by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from tests.benchmarks.batch_pass import batch_passes
from tests.benchmarks.bulk import live_turns_beside_bulk
from tests.benchmarks.figure import Figure
from tests.benchmarks.finalize_turn import finalized_turns
from tests.benchmarks.idle_scan import idle_scans
from tests.benchmarks.importing import imports
from tests.benchmarks.latency import compacted_after_turns
from tests.benchmarks.load_context import loaded_contexts
from tests.benchmarks.micro_pass import micro_passes
from tests.benchmarks.outage import turns_without_broker
from tests.benchmarks.prune import pruning
from tests.benchmarks.rates import rates
from tests.benchmarks.recall import indexed_turns, recalled, searched
from tests.benchmarks.scale import Scale
from tests.benchmarks.size import sizes
from tests.benchmarks.stage import Stage
from tests.benchmarks.survival import canary_survival
from tests.benchmarks.throughput import turns_through_the_queue
from tests.benchmarks.walk import walked

Benchmark = Callable[[Stage, Scale], Iterator[Figure]]

BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType(
    {
        "micro_pass": micro_passes,
        "batch_pass": batch_passes,
        "finalize_turn": finalized_turns,
        "outage": turns_without_broker,
        "throughput": turns_through_the_queue,
        "latency": compacted_after_turns,
        "bulk": live_turns_beside_bulk,
        "load_context": loaded_contexts,
        "import": imports,
        "idle_scan": idle_scans,
        "prune": pruning,
        "recall": recalled,
        "search_speed": searched,
        "search_append": indexed_turns,
        "rates": rates,
        "survival": canary_survival,
        "walk": walked,
        "size": sizes,
    }
)

ARCHIVE = ("search_speed",)
"""Benchmarks on an archive of a million messages, which take minutes."""

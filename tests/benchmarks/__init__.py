"""The figures that must hold, measured and printed as one table: `python -m tests.benchmarks`.

| module | measures |
|---|---|
| `micro_pass` | a pass without the model in long and short sessions, and what it leaves on disk |
| `finalize_turn` | a finished turn against the same statements written by hand |
| `outage` | a finished turn while the broker is gone |
| `throughput` | turns through queue and database, against tasks that do nothing |
| `latency` | how long after a turn its compaction is committed |
| `load_context` | reading the live view with and without archived rows behind it |
| `idle_scan` | looking for idle sessions among many that are not |
| `rates` | the rules that look at every character: estimating, redacting, rendering |

What is compared is measured in one run by turns (A B A B …), and the medians are compared, so that
what else the machine does meanwhile touches both sides.
"""

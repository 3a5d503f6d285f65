"""The figures that must hold, measured and printed as one table: `python -m tests.benchmarks`.

| module | measures |
|---|---|
| `micro_pass` | a pass without the model in long and short sessions, and what it leaves on disk |
| `finalize_turn` | a finished turn against the same statements written by hand |
| `load_context` | reading the live view with and without archived rows behind it |
| `rates` | the rules that look at every character: estimating, redacting, rendering |

What is compared is measured in one run by turns (A B A B …), and the medians are compared, so that
what else the machine does meanwhile touches both sides.
"""

"""The page of the outcomes of passes."""

from __future__ import annotations

from docs.gen.markdown import code, page, table

MEANINGS = {
    "absorbed": ("micro", "yes", "The oldest exchanges were taken into the rolling summary."),
    "defragmented": ("micro", "yes", "The rolling summary was rewritten shorter, in place."),
    "defrag_rejected": (
        "micro", "no",
        "The rewrite kept more than 80 % of the old size. The mark is raised by half.",
    ),
    "skipped": (
        "micro", "no",
        "An exchange was answered badly three times. The cursor moves past it, its rows stay.",
    ),
    "compacted": ("batch", "yes", "A summary took the place of the middle."),
    "placeholder": (
        "batch", "yes", "No summary could be had; a placeholder made without a model stands in."
    ),
    "placeholder_replaced": ("batch", "yes", "A real summary took the placeholder's place."),
    "reset": (
        "batch", "yes", "All but head, last good summary and newest turn was archived."
    ),
    "pruned": ("prune, batch", "yes", "Old tool output is shown in short forms."),
    "pruned_enough": (
        "batch", "yes", "Pruning brought the view below the threshold, so no model was asked."
    ),
    "nothing_due": ("all", "no", "There was nothing to do. No failure, and no guard is set."),
    "not_smaller": ("batch", "no", "The view would not have shrunk, so the result was refused."),
    "suppressed": ("batch", "no", "A guard or the main switch kept the pass from running."),
    "failed": ("micro, batch", "no", "No usable answer; the job is tried again later."),
    "gave_up": ("batch", "no", "The last attempt failed and the session stays as it is."),
    "stale": ("all", "no", "The session changed between plan and commit; planned again."),
    "handed_back": (
        "all", "no", "The worker stops or lost its lease; another one goes on. No attempt is spent."
    ),
}  # fmt: skip
"""Each outcome with the jobs that end so, whether it changes the live view, and its meaning."""


def outcomes() -> str:
    """Return the page of every outcome that a pass can have."""
    return page(
        "Outcomes",
        "One word for how a pass ended, the same wherever it shows: the row in `attempts`, the "
        "[log line](logs.md), the metric's label, the audit trail, the [signal](signals.md), "
        "Flower and the command line.",
        table(
            ("outcome", "jobs", "changes the view", "meaning"),
            [(code(name), *facts) for name, facts in MEANINGS.items()],
        ),
        "What follows from a failure is in [Failures](../explanation/failures.md).",
    )

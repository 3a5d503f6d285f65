"""The tally of a chaos run: what was done to it, and what it did meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.table import Table

from tests.chaos.form import Form


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers by what they count, under three headings, and what was wrong."""

    form: Form
    done_to_it: Mapping[str, int]
    it_did: Mapping[str, int]
    seconds: Mapping[str, float]
    faults: tuple[str, ...]

    def table(self) -> Table:
        """Return all of it, for people."""
        form = self.form
        table = Table(
            title=f"Chaos on {form.kind.value}, seed {form.seed}",
            caption="nothing was lost" if not self.faults else f"{len(self.faults)} faults",
            show_header=False,
        )
        table.add_column()
        table.add_column(justify="right")
        for part in (self.done_to_it, self.it_did):
            for name, number in part.items():
                table.add_row(name, f"{number:,}")
            table.add_section()
        for name, seconds in self.seconds.items():
            table.add_row(name, f"{seconds:.0f} s")
        return table

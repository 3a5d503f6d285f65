"""Write the generated pages: `python -m docs.gen`."""

from __future__ import annotations

from pathlib import Path

from docs.gen.api import errors, gateway, signals
from docs.gen.cli import cli
from docs.gen.operations import exit_codes, logs, metrics, settings
from docs.gen.outcomes import outcomes

REFERENCE = Path(__file__).parents[1] / "reference"

PAGES = {
    "gateway.md": gateway,
    "errors.md": errors,
    "signals.md": signals,
    "settings.md": settings,
    "metrics.md": metrics,
    "logs.md": logs,
    "cli.md": cli,
    "exit-codes.md": exit_codes,
    "outcomes.md": outcomes,
}


def write() -> None:
    """Write every page."""
    for name, make in PAGES.items():
        (REFERENCE / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    write()

"""A headless browser of the machine, where there is one: it shows pages as a person sees them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.programs.processes import PROJECT

SCREENSHOTS = PROJECT / "build" / "screenshots"
"""Where pictures are kept after a run, as build output."""

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars",
)  # fmt: skip


def browsers() -> list[Path]:
    """Return the browser to test with, or none."""
    found = [Path(path) for name in _NAMES if (path := shutil.which(name)) is not None]
    return found[:1]


@dataclass(frozen=True, slots=True)
class Browser:
    """A Chromium. Each call is a browser of its own with an empty profile."""

    program: Path

    def text(self, url: str, *, milliseconds: int = 4000) -> str:
        """Return the page's DOM after its scripts have run for so long."""
        return self._run(url, f"--virtual-time-budget={milliseconds}", "--dump-dom")

    def picture(self, url: str, name: str, *, milliseconds: int = 4000) -> Path:
        """Return a screenshot of the page, kept under `name`."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        file = SCREENSHOTS / f"{name}.png"
        file.unlink(missing_ok=True)
        self._run(
            url,
            f"--virtual-time-budget={milliseconds}",
            f"--screenshot={file}",
            "--window-size=1440,900",
        )
        return file

    def _run(self, url: str, *arguments: str) -> str:
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run(
                [self.program, *_QUIET, f"--user-data-dir={profile}", *arguments, url],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=120,
                check=True,
                text=True,
            )
        return done.stdout

"""Whether the configuration can be read."""

from __future__ import annotations

from pathlib import Path

from afterturn.doctor.finding import Finding
from afterturn.exits import problems_place
from workers.settings import Settings, load_settings, settings_path
from workers.settings.base import SettingsError

CHECK = "configuration"


def read_configuration(path: Path | None) -> tuple[Settings | None, Finding]:
    """The settings, None where they cannot be used, and what was found."""
    place = settings_path(path)
    try:
        settings = load_settings(path)
    except SettingsError as error:
        return None, Finding.fail(
            CHECK,
            "; ".join(str(problem) for problem in error.problems),
            f"correct {problems_place(error)}; `afterturn config check` tells when it is "
            "good, `afterturn config show-example` explains every key",
        )
    if not place.exists():
        return settings, Finding.ok(CHECK, f"no file at {place}, defaults hold")
    return settings, Finding.ok(CHECK, str(place))

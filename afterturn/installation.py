"""Whether the packages of this program are the ones that Python loads.

Their names (`storage`, `tasks`, …) are generic, so another distribution may ship one of them too.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("afterturn", "producers", "schedules", "storage", "tasks", "workers")
OURS = "afterturn"


def version_of(distribution: str) -> str:
    """Return the version of an installed distribution, in words where there is none."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "(not installed)"


def shared_packages() -> dict[str, list[str]]:
    """Return our packages that other installed distributions ship too, with the names of those."""
    distributions = packages_distributions()
    shared: dict[str, list[str]] = {}
    for package in PACKAGES:
        others = sorted(set(distributions.get(package, ())) - {OURS})
        if others:
            shared[package] = others
    return shared


def misplaced_packages() -> dict[str, str]:
    """Return our packages that Python would load from another place, with that place."""
    home = Path(__file__).resolve().parents[1]
    misplaced: dict[str, str] = {}
    for package in PACKAGES:
        spec = find_spec(package)
        found = Path(spec.origin).resolve().parents[1] if spec and spec.origin else None
        if found != home:
            misplaced[package] = "nowhere" if found is None else str(found)
    return misplaced


def warning() -> str | None:
    """Return a line for the start of a worker, None where all is well."""
    shared = shared_packages()
    if not shared:
        return None
    listed = ", ".join(f"{package} ({', '.join(by)})" for package, by in shared.items())
    return (
        f"other installed distributions ship packages of the same name: {listed}; "
        "install afterturn in an environment of its own"
    )

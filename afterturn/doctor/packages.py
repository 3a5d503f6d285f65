"""Whether Python loads our packages, and which versions of what we build on."""

from __future__ import annotations

import platform

from afterturn import installation
from afterturn.doctor.finding import Finding

_BUILT_ON = ("celery", "kombu", "sqlalchemy", "openai")


def check_packages() -> list[Finding]:
    """What was found of the installation."""
    return [_names(), Finding.ok("versions", _versions())]


def _names() -> Finding:
    check = "packages"
    misplaced = installation.misplaced_packages()
    if misplaced:
        listed = ", ".join(f"{package} from {place}" for package, place in misplaced.items())
        return Finding.fail(
            check,
            f"Python loads {listed}",
            "install afterturn in an environment of its own, or start from another folder",
        )
    if (warning := installation.warning()) is not None:
        problem, _, advice = warning.partition("; ")
        return Finding.warn(check, problem, advice)
    return Finding.ok(check, "no other distribution ships one of the same name")


def _versions() -> str:
    known = [f"{name} {installation.version_of(name)}" for name in (installation.OURS, *_BUILT_ON)]
    return ", ".join([*known, f"Python {platform.python_version()}"])

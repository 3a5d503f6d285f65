"""Pages on the gateway's interface: classes, errors, signals."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from docs.gen.markdown import code, page, prose, table
from docs.gen.sources import LOUD_SIGNALS, PUBLIC_HOME, SignalKind, public

ENTRY = "Gateway"

_SIZES = "`messages_before`, `messages_after`, `tokens_before`, `tokens_after`"
MEANINGS = {
    "compaction_started": ("A batch pass asks the summariser.", "`trigger`"),
    "compaction_finished": ("A summary took the middle's place.", _SIZES),
    "compaction_failed": ("The last attempt of a job failed.", "`error`: the error class"),
    "cooldown": (
        "Automatic passes of the session are suppressed for a time.",
        "`error`; `until`: milliseconds since 1970, UTC",
    ),
    "placeholder_in_use": ("A placeholder made without a model stands in.", _SIZES),
    "placeholder_replaced": ("A real summary took the placeholder's place.", _SIZES),
    "compression_stuck": (
        "The session cannot be made smaller: its user needs a new one.",
        f"`sentence` for the user; {_SIZES}",
    ),
    "compression_exhausted": (
        "Several batch jobs in a row failed with the window nearly full; a reset follows.",
        "`failures`: how many",
    ),
    "session_reset": (
        "All but head, last good summary and newest turn was archived.",
        f"`sentence` for the user; {_SIZES}",
    ),
    "compact_your_thread": (
        "The gateway is to have Codex compact the thread that it owns.",
        "`prompt_tokens`, `turn`",
    ),
}
"""Each signal with what it means and what its facts hold."""


def gateway() -> str:
    """Return the page of the gateway, its results and the values that it takes."""
    values = [name for name, one in _exports() if not _is_error(one) and name != ENTRY]
    return page(
        "Gateway",
        "Everything here is imported from `afterturn`: `from afterturn import Gateway`. Errors "
        "have a [page of their own](errors.md), with what each of them means for the caller.",
        _directive(ENTRY),
        "## Results and values",
        *(_directive(name, level=3) for name in values),
    )


def errors() -> str:
    """Return the page of the errors that reach a gateway."""
    found = {name: one for name, one in _exports() if _is_error(one)}
    return page(
        "Errors",
        "What a [gateway](gateway.md) raises. All of them are imported from `afterturn`.",
        "## The tree",
        "```text\n" + "\n".join(_tree(found)) + "\n```",
        "## Each of them",
        *(
            f"### {name}\n\n{prose(one.__doc__)}{_facts(one)}{_repeatable(one)}"
            for name, one in sorted(found.items())
        ),
    )


def signals() -> str:
    """Return the page of the signals that gateways hear."""
    rows = [
        (code(kind.value), "loud" if kind in LOUD_SIGNALS else "quiet", *MEANINGS[kind.value])
        for kind in SignalKind
    ]
    return page(
        "Signals",
        "What happened to a session, for the gateway that serves its user. "
        "`gateway.signals(after=…)` reads them and `gateway.listen()` waits for them; "
        "`afterturn signals` prints them. A signal holds figures, never text of a conversation.",
        "*Loud* ones want something done and are always delivered. *Quiet* ones are progress; a "
        "gateway gets them with `quiet=True`, or when `compression.progress_notices` is on.",
        table(("kind", "", "meaning", "facts"), rows),
        "## Without Python",
        "Over a Redis broker each signal is also published on the channel "
        "`afterturn:signals:OWNER` as one JSON object: `id`, `owner`, `session`, `kind`, `quiet`, "
        "`facts`, `at` (milliseconds since 1970, UTC). Ids grow; use them to find out what was "
        "missed while nobody listened.",
    )


def _exports() -> Iterator[tuple[str, Any]]:
    for name in public.__all__:
        yield name, getattr(public, name)


def _is_error(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, BaseException)


def _directive(name: str, *, level: int = 2) -> str:
    return f"::: {PUBLIC_HOME}.{name}\n    options:\n      heading_level: {level}"


def _tree(found: dict[str, type[BaseException]]) -> list[str]:
    """Draw the classes below those that they derive from."""
    known = set(found.values())
    roots = {_root(one, known) for one in known}
    lines: list[str] = []
    for root in sorted(roots, key=lambda one: one.__name__):
        lines.append(_label(root, known))
        lines += _branches(root, known, "")
    return lines


def _root(one: type[BaseException], known: set[type[BaseException]]) -> type[BaseException]:
    """Return the uppermost class of ours, or of Python's where there is none above `one`."""
    above = [base for base in one.__mro__[1:] if base in known]
    if above:
        return above[-1]
    own = any(one in other.__mro__[1:] for other in known)
    plain = (object, BaseException, Exception)
    return one if own else next((b for b in reversed(one.__mro__) if b not in plain), one)


def _branches(
    over: type[BaseException], known: set[type[BaseException]], indent: str
) -> Iterator[str]:
    below = sorted((one for one in known if over in one.__bases__), key=lambda one: one.__name__)
    for one in below:
        last = one is below[-1]
        yield f"{indent}{'└── ' if last else '├── '}{_label(one, known)}"
        yield from _branches(one, known, indent + ("    " if last else "│   "))


def _label(one: type[BaseException], known: set[type[BaseException]]) -> str:
    """Name a class of ours with the errors of Python that it also is."""
    also = [b.__name__ for b in one.__bases__ if b not in known and b.__module__ == "builtins"]
    shown = [name for name in also if name not in ("Exception", "BaseException")]
    return f"{one.__name__} ({', '.join(shown)})" if one in known and shown else one.__name__


def _repeatable(one: type[BaseException]) -> str:
    """Say whether the same call may be repeated, where the class says so."""
    if one.__subclasses__():
        return ""
    match getattr(one, "repeatable", None):
        case True:
            return "\n\nThe same call may be repeated."
        case False:
            return "\n\nRepeating the same call does not help."
        case _:
            return ""


def _facts(one: type[BaseException]) -> str:
    if one.__init__ is BaseException.__init__ or "__init__" not in vars(one):
        return ""
    source = inspect.getsource(one.__init__)
    names = [
        line.strip().removeprefix("self.").partition(" = ")[0]
        for line in source.splitlines()
        if line.strip().startswith("self.")
    ]
    return f"\n\nOn the exception: {', '.join(map(code, names))}." if names else ""

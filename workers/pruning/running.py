"""Tasks that run on in the background, told by what their newest result says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from workers.pruning.calls import Call

_RUNS = frozenset(
    {"running", "pending", "queued", "started", "in_progress", "in progress", "working"}
)
_SAYS = (
    "still running",
    "running in the background",
    "in progress",
    "not finished",
    "not yet finished",
    "not done",
    "not yet done",
)
_LOOKED_AT = 600
_JSON_CHARS = 2_000_000
_NAMES = (
    "task_id",
    "process_id",
    "session_id",
    "job_id",
    "run_id",
    "shell_id",
    "bash_id",
    "pid",
    "id",
)
_FEWEST_CHARS = 2


def still_running(call: Call, text: str, later: Iterable[str]) -> bool:
    """Whether an output is the last word of a task that has not ended.

    It says so itself, and no later call names the task. `later` are the arguments of the later
    calls that have a result.
    """
    stated = '"status"' in text or '"state"' in text
    fields = _fields(text) if stated else {}
    if not _says_so(text, fields):
        return False
    names = [name for name in (_name(call.arguments), _name(fields)) if name]
    if not names:
        return False
    return not any(name in arguments for arguments in later for name in names)


def _says_so(text: str, fields: Mapping[str, object]) -> bool:
    status = fields.get("status", fields.get("state"))
    if isinstance(status, str):
        return status.casefold() in _RUNS
    ends = (text[:_LOOKED_AT] + text[-_LOOKED_AT:]).lower()
    return any(words in ends for words in _SAYS)


def _name(fields: Mapping[str, object]) -> str:
    """What the task is called, "" where nothing says."""
    for name in _NAMES:
        value = fields.get(name)
        if isinstance(value, int | str) and len(str(value)) >= _FEWEST_CHARS:
            return str(value)
    return ""


def _fields(text: str) -> Mapping[str, object]:
    if text[:1] != "{" or len(text) > _JSON_CHARS:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}

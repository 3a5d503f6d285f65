"""Map tool names to kinds of tools, and kinds to the arguments that show what a call did.

Names from the settings take precedence over built-in ones. The output of every tool that is not
exempt is shortened, known or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType

from workers.prune.outputs import Call


class Form(StrEnum):
    """A kind of tool."""

    SHELL = "shell"
    READ = "read"
    WRITE = "write"
    PATCH = "patch"
    SEARCH = "search"
    BROWSER = "browser"
    WEB = "web"
    CODE = "code"
    DELEGATION = "delegation"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Shape:
    """The description of a kind of tool in one line.

    `arguments` are shown if a call has them, in that order. `logs` says that the output is a log in
    which any line may report an error, unlike a file that was read. `reports` says that the output
    begins with the result. `begins` says that the first words of the output are shown.
    """

    arguments: tuple[str, ...] = ()
    logs: bool = False
    reports: bool = False
    begins: bool = False


SHAPES: Mapping[Form, Shape] = MappingProxyType(
    {
        Form.SHELL: Shape(("command", "cmd", "script", "cwd", "workdir"), logs=True),
        Form.READ: Shape(
            ("command", "path", "file_path", "filename", "offset", "limit", "view_range", "line")
        ),
        Form.WRITE: Shape(("command", "path", "file_path", "filename"), reports=True, begins=True),
        Form.PATCH: Shape(
            ("command", "mode", "path", "file_path", "filename"), reports=True, begins=True
        ),
        Form.SEARCH: Shape(
            ("pattern", "query", "regex", "search_term", "target", "path", "dir", "glob"),
        ),
        Form.BROWSER: Shape(("action", "url", "ref", "selector", "text"), begins=True),
        Form.WEB: Shape(("query", "url", "urls", "q"), begins=True),
        Form.CODE: Shape(("language", "code"), logs=True),
        Form.DELEGATION: Shape(
            ("goal", "description", "task", "prompt", "agent", "task_id"), reports=True, begins=True
        ),
        Form.OTHER: Shape((), logs=True, begins=True),
    }
)

_BUILT_IN: tuple[tuple[Form, tuple[str, ...]], ...] = (
    (
        Form.SHELL,
        (
            "bash",
            "bashoutput",
            "bash_output",
            "shell",
            "terminal",
            "process",
            "execute_bash",
            "execute_command",
            "run_command",
            "run_shell*",
            "run_in_terminal",
            "local_shell",
            "*_shell",
            "exec",
            "cmd",
            "powershell",
        ),
    ),
    (Form.CODE, ("execute_code", "run_code", "code_interpreter", "*python*", "jupyter*", "repl")),
    (
        Form.SEARCH,
        ("search_file*", "search_dir*", "search_code*", "*grep*", "glob*", "find*", "rg"),
    ),
    (Form.SEARCH, ("list_files", "list_dir*", "ls", "codebase_search")),
    (Form.WEB, ("web*", "*_web", "fetch*", "*_fetch", "http*", "url_*", "tavily*", "google*")),
    (Form.BROWSER, ("browser*", "playwright*", "puppeteer*", "computer*", "screenshot*")),
    (
        Form.DELEGATION,
        ("delegate*", "task", "spawn*", "sub_agent*", "subagent*", "agent", "task_output"),
    ),
    (
        Form.PATCH,
        (
            "patch*",
            "*_patch",
            "edit*",
            "*_edit",
            "multiedit",
            "str_replace*",
            "insert*",
            "replace*",
        ),
    ),
    (Form.WRITE, ("write*", "create", "create_file", "save_file", "append_file", "notebookedit")),
    (Form.READ, ("read*", "open", "open_file", "view*", "cat", "get_file*", "goto", "scroll*")),
)


@dataclass(slots=True)
class Registry:
    """The exempt tools, and the kinds of the others.

    Patterns are those of file names (`mcp_*`) and ignore case. A name with a prefix, such as
    `mcp__files__read_file`, also matches without it.
    """

    exempt: Sequence[str]
    forms: Mapping[str, str]
    _known: dict[str, Form | None] = field(default_factory=dict)

    def form_of(self, name: str) -> Form | None:
        """Return the kind of a tool; None if it is exempt."""
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def _find(self, name: str) -> Form | None:
        names = _spellings(name)
        if _matches(names, self.exempt):
            return None
        for pattern, form in self.forms.items():
            if _matches(names, (pattern,)):
                return Form(form)
        return next((form for form, patterns in _BUILT_IN if _matches(names, patterns)), Form.OTHER)


def _spellings(name: str) -> tuple[str, ...]:
    whole = name.casefold()
    last = whole
    for border in ("__", ".", "/", ":"):
        last = last.rpartition(border)[2] or last
    return (whole,) if last == whole else (whole, last)


def _matches(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern.casefold()) for pattern in patterns for name in names)


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
    """Return whether an output is the latest one of a task that has not ended.

    It is if the output says so itself and no later call names the task. `later` are the arguments
    of the later calls that have a result.
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
    """Return the name of a task, "" if no field gives one."""
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

"""Loading of settings from one YAML file and three environment variables."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self, TypeAlias

import platformdirs
from pydantic import ValidationError

from workers.settings.base import Problem, SettingsError
from workers.settings.describe import problems_in
from workers.settings.document import Document, UnreadableError, read_document
from workers.settings.model import Settings

_log = logging.getLogger(__name__)

_VARIABLES = {"database_url": "DATABASE_URL", "broker_url": "BROKER_URL"}
_RELOADED = ("compression", "auxiliary")

_Stamp: TypeAlias = tuple[int, int, int] | None
"""A value that changes when a file changes; None without a file."""


def settings_path(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """Return the settings file to read: `path`, else AFTERTURN_CONFIG, else the user's own.

    The user's own is `config.yaml` in the user's configuration directory for `afterturn`; it
    need not exist, and neither is checked here. `environ` is the process's own by default.
    """
    named = path or _named_in(os.environ if environ is None else environ)
    if named is not None:
        return named.expanduser()
    return platformdirs.user_config_path("afterturn", appauthor=False) / "config.yaml"


def load_settings(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of the file (see `settings_path`) and the environment.

    DATABASE_URL and BROKER_URL take precedence over the file; no other variable changes a setting,
    and empty ones count as not set. Without the user's own file the defaults apply; a file that was
    named must exist. Raises `SettingsError` with every problem of file and variables.
    """
    environ = os.environ if environ is None else environ
    file = settings_path(path, environ)
    must_exist = path is not None or _named_in(environ) is not None
    return _load(file, environ, must_exist=must_exist)


class SettingsSource:
    """The current settings. Safe to use from many threads.

    Blocks `compression` and `auxiliary` follow the file; all others stay as they were at the
    start. A file that becomes invalid or disappears changes nothing; that is logged once.
    """

    def __init__(
        self,
        settings: Settings,
        file: Path | None = None,
        environ: Mapping[str, str] | None = None,
        stamp: _Stamp = None,
    ) -> None:
        """Use `fixed` or `following` instead."""
        self._settings = settings
        self._file = file
        self._environ = dict(environ or {})
        self._stamp = stamp
        self._lock = threading.Lock()

    @classmethod
    def fixed(cls, settings: Settings) -> Self:
        """Return a source that always returns `settings`."""
        return cls(settings)

    @classmethod
    def following(cls, path: Path | None = None, environ: Mapping[str, str] | None = None) -> Self:
        """Return a source that starts like `load_settings`, and raises like it."""
        environ = os.environ if environ is None else environ
        file = settings_path(path, environ)
        stamp = _stamp(file)  # Before reading: a change in between is then noticed.
        return cls(load_settings(path, environ), file, environ, stamp)

    def current(self) -> Settings:
        """Return the current settings; costs one stat of the file."""
        if self._file is None:
            return self._settings
        with self._lock:
            stamp = _stamp(self._file)
            if stamp != self._stamp:
                self._stamp = stamp
                self._settings = self._read_again(self._file)
            return self._settings

    def _read_again(self, file: Path) -> Settings:
        old = self._settings
        try:
            new = _load(file, self._environ, must_exist=True)
        except SettingsError as error:
            _log.warning("settings file cannot be used, the last good settings hold: %s", error)
            return old
        for name in Settings.model_fields:
            if name not in _RELOADED and getattr(new, name) != getattr(old, name):
                _log.warning("%s changed in %s: takes effect at the next start", name, file)
        _log.info("settings read again from %s", file)
        return old.model_copy(update={name: getattr(new, name) for name in _RELOADED})


def _load(file: Path, environ: Mapping[str, str], *, must_exist: bool) -> Settings:
    document = _read(file, must_exist=must_exist)
    content = {} if document.content is None else document.content
    if not isinstance(content, dict):
        problem = Problem("", "the file needs to hold keys, such as `compression:`", line=1)
        raise SettingsError((problem,), file)
    given = {field: environ[name] for field, name in _VARIABLES.items() if environ.get(name)}
    problems = document.doubles
    try:
        settings = Settings.model_validate({**content, **given})
    except ValidationError as error:
        found = problems_in(error, document)
        problems += tuple(_of_variable(p) if p.key in given else p for p in found)
    if problems:
        raise SettingsError(tuple(sorted(problems, key=lambda problem: problem.line or 0)), file)
    return settings


def _read(file: Path, *, must_exist: bool) -> Document:
    try:
        return read_document(file.read_bytes())
    except UnreadableError as error:
        raise SettingsError((error.problem,), file) from None
    except FileNotFoundError:
        if not must_exist:
            return Document(None, {})
        problem = Problem("", "there is no such file; correct the path or create it")
    except OSError as error:
        problem = Problem("", f"the file cannot be read: {error.strerror}")
    raise SettingsError((problem,), file) from None


def _of_variable(problem: Problem) -> Problem:
    return replace(problem, key=f"{_VARIABLES[problem.key]} (environment)", line=None)


def _named_in(environ: Mapping[str, str]) -> Path | None:
    name = environ.get("AFTERTURN_CONFIG")
    return Path(name) if name else None


def _stamp(file: Path) -> _Stamp:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino

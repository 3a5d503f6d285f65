"""`afterturn import`: import sessions from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from afterturn.commands.shared import AsJson
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation, person
from afterturn.render.console import Output
from afterturn.render.fields import NUMBER, Field, Fields, document, documents, lines, show_table
from afterturn.render.progress import show_progress
from afterturn.render.words import count, number
from producers.importing import Account, Fate, ImportProgress, ImportRefused, Terms, import_file
from producers.importing.source import ImportProblem

_FATES: dict[Fate, str] = {
    Fate.LIVE: "stored, live",
    Fate.ARCHIVED: "stored, archived under an imported summary",
    Fate.UNARCHIVED: "stored, live: archived there, but no summary shows them",
    Fate.SUMMARY: "stored as summaries",
    Fate.OLD_SUMMARY: "summaries that a newer one has replaced, left out",
    Fate.SYSTEM_PROMPT: "kept as system prompts",
    Fate.COPY: "further copies of a stored row",
    Fate.REWOUND: "taken back by their users, left out",
    Fate.KNOWN: "imported before",
    Fate.BAD: "bad, skipped",
    Fate.REFUSED: "of sessions that were not imported",
}
_SESSIONS = {
    "new": "new",
    "grown": "grown since the last import",
    "unchanged": "imported before",
    "clash": "not imported",
    "bad": "bad",
}


IMPORTED: Fields[Account] = (
    Field("sessions", "sessions", lambda one: dict(one.sessions),
          text=lambda one: ", ".join(f"{number(many)} {_SESSIONS.get(name, name)}"
                                     for name, many in one.sessions.items()) or "none"),
    Field("rows_read", "rows read", lambda one: one.read, NUMBER),
    Field("rows", "", lambda one: {fate.value: one.fates[fate] for fate in Fate},
          text=lambda one: "\n".join(f"{number(one.fates[fate])} {words}"
                                     for fate, words in _FATES.items() if one.fates[fate])),
    Field("rows_unaccounted", "", lambda one: one.unaccounted,
          text=lambda one: f"{number(one.unaccounted)} without account: a fault in afterturn"
          if one.unaccounted else ""),
    Field("live_tokens_added", "live tokens", lambda one: one.tokens,
          text=lambda one: f"{number(one.tokens)} added"),
    Field("problems", None, lambda one: documents(PROBLEM, one.problems)),
    Field("problems_not_named", None, lambda one: one.unnamed),
)  # fmt: skip

PROBLEM: Fields[ImportProblem] = (
    Field("place", "where", lambda one: one.place),
    Field("problem", "what is wrong", lambda one: one.problem),
)


def import_(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="JSON lines with a session each (OpenAI chat, or an export of Hermes Agent), or "
            "a state.db of Hermes Agent.",
        ),
    ],
    *,
    source: Annotated[
        str | None, typer.Option(help="Where they come from, in place of what they say themselves.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Their model, in place of what they say themselves.")
    ] = None,
    context_window: Annotated[
        int | None, typer.Option(min=1024, metavar="TOKENS", help="The window of their model.")
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Leave out what cannot be stored, and name it at the end."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Import old sessions. It may be run again at any time: what is stored already is left out.

    Each session is stored whole or not at all. Summaries of Hermes Agent stay summaries: they are
    shown, and the originals are archived and found by search. Nothing is compacted; `afterturn
    recompact` does that. A state.db is only read, Hermes Agent may run.

    Exit code 1 when something was not imported.
    """
    output, invocation = Output(as_json=as_json), Invocation.of(context)
    account = Account()
    interrupted = False
    with invocation.database(create=True) as (database, _):
        try:
            for path, on_progress in _each(output, files):
                terms = Terms(
                    owner=invocation.owner,
                    actor=person(),
                    source=source,
                    model=model,
                    context_window=context_window,
                    undated_ms=int(path.stat().st_mtime * 1000),
                    skip_bad=skip_bad,
                )
                import_file(database, path, terms, account, on_progress)
        except KeyboardInterrupt:
            interrupted = True
        except ImportRefused as error:
            _show(output, account)
            raise CommandError(str(error), Exit.USAGE) from None
    _show(output, account)
    if interrupted:
        output.notice("Interrupted. Run it again to go on where it was.")
        raise typer.Exit(Exit.INTERRUPTED)
    if account.problems:
        raise typer.Exit(Exit.FAILED)


def _each(output: Output, files: Sequence[Path]) -> Iterator[tuple[Path, ImportProgress]]:
    """Yield every file, with what shows its progress."""
    for path in files:
        if not path.is_file():
            raise ImportRefused(f"{path}: there is no such file")
    with show_progress(output.notices, seconds=None) as progress:
        for path in files:
            yield path, partial(progress.bar, path.name)


def _show(output: Output, account: Account) -> None:
    if output.as_json:
        output.document(document(IMPORTED, account))
        return
    if not account.read:
        output.notice("Nothing was read.")
        return
    output.show(lines(IMPORTED, account))
    if account.problems:
        output.show("")
        show_table(output, PROBLEM, account.problems, title="Not imported")
        if account.unnamed:
            output.write(f"And {count(account.unnamed, 'more', 'more')}.")

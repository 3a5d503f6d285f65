"""`afterturn import`: bring in sessions from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from afterturn.actor import person
from afterturn.commands.options import AsJson
from afterturn.console import Output
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.words import cell, columns, count, facts, number
from producers.importing import Account, Fate, ImportRefused, Progress, Terms, import_file

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
    Fate.REFUSED: "of sessions that were not brought in",
}
_SESSIONS = {
    "new": "new",
    "grown": "grown since the last import",
    "unchanged": "imported before",
    "clash": "not brought in",
    "bad": "bad",
}


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
    """Bring in old sessions. Call it again at any time: what is here already is known again.

    Each session is stored whole or not at all. Summaries of Hermes Agent and what they replaced
    stay that: the summary is shown, the originals are archived and found by search. Nothing is
    compacted by it; `afterturn recompact` does that. A state.db is only read, Hermes Agent may run.

    Exit code 1 when something was not brought in.
    """
    output, invocation = Output(as_json=as_json), Invocation.of(context)
    account = Account()
    interrupted = False
    with invocation.database(create=True) as (database, _):
        try:
            for path, told in _each(output, files):
                terms = Terms(
                    owner=invocation.owner,
                    actor=person(),
                    source=source,
                    model=model,
                    context_window=context_window,
                    undated_ms=int(path.stat().st_mtime * 1000),
                    skip_bad=skip_bad,
                )
                import_file(database, path, terms, account, told)
        except KeyboardInterrupt:
            interrupted = True
        except ImportRefused as error:
            _tell(output, account)
            raise CommandError(str(error), Exit.USAGE) from None
    _tell(output, account)
    if interrupted:
        output.notice("Interrupted. Call it again to go on where it was.")
        raise typer.Exit(Exit.INTERRUPTED)
    if account.problems:
        raise typer.Exit(Exit.FAILED)


def _each(output: Output, files: Sequence[Path]) -> Iterator[tuple[Path, Progress]]:
    """Every file, and what shows how far it is."""
    for path in files:
        if not path.is_file():
            raise ImportRefused(f"{path}: there is no such file")
    parts = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Bar(*parts, TimeRemainingColumn(), console=output.notices, transient=True) as bar:
        for path in files:
            yield path, _shown(bar, bar.add_task(path.name))


def _shown(bar: Bar, task: TaskID) -> Progress:
    return lambda done, of: bar.update(task, completed=done, total=of)


def _tell(output: Output, account: Account) -> None:
    if output.as_json:
        output.document(_document(account))
        return
    if not account.read:
        output.notice("Nothing was read.")
        return
    sessions = ", ".join(
        f"{number(many)} {_SESSIONS.get(name, name)}" for name, many in account.sessions.items()
    )
    lines = [("sessions", sessions or "none"), ("rows read", number(account.read))]
    lines += [
        ("", f"{number(account.fates[fate])} {words}")
        for fate, words in _FATES.items()
        if account.fates[fate]
    ]
    if account.unaccounted:
        lines.append(("", f"{number(account.unaccounted)} without account: a fault in afterturn"))
    output.show(facts([*lines, ("live tokens", f"{number(account.tokens)} added")]))
    if not account.problems:
        return
    table = columns("where", "what is wrong", title="Not brought in")
    for problem in account.problems:
        table.add_row(cell(problem.place), cell(problem.problem))
    output.show("", table)
    if account.unnamed:
        output.tell(f"And {count(account.unnamed, 'more', 'more')}.")


def _document(account: Account) -> dict[str, Any]:
    return {
        "sessions": dict(account.sessions),
        "rows_read": account.read,
        "rows": {fate.value: account.fates[fate] for fate in Fate},
        "rows_unaccounted": account.unaccounted,
        "live_tokens_added": account.tokens,
        "problems": [
            {"place": problem.place, "problem": problem.problem} for problem in account.problems
        ],
        "problems_not_named": account.unnamed,
    }

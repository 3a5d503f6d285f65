"""`afterturn search`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from afterturn.commands.shared import AsJson
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation, find_session, person
from afterturn.render.console import Output
from afterturn.render.fields import (
    ID,
    MOMENT,
    NUMBER,
    OPTIONAL,
    Field,
    Fields,
    document,
    documents,
    for_programs,
    show_table,
    within,
)
from afterturn.render.transcript import cut, hit_blocks, scroll_blocks
from producers.arguments import RequestError
from producers.recall import check_roles, discover_caught_up, read_place, read_time
from storage import search as recall
from storage.engine import Database
from storage.search import (
    ROLES,
    BrowsePage,
    Found,
    Hit,
    Line,
    Scope,
    Scrolled,
    SearchMarkError,
    SessionFacts,
)

SESSION: Fields[SessionFacts] = (
    Field("active_at", "last active", lambda one: one.active_at, MOMENT),
    Field("id", "session", lambda one: one.id, ID),
    Field("title", "title", lambda one: one.title, OPTIONAL, priority=1),
    Field("source", "source", lambda one: one.source, priority=2),
    *for_programs("owner"),
    Field("started_at", None, lambda one: one.started_at, MOMENT),
)

BROWSED: Fields[Any] = (
    *within(lambda one: one.session, SESSION),
    Field("messages", "messages", lambda one: one.messages, NUMBER, priority=3),
    Field("first_request", "first request", lambda one: one.first_request,
          text=lambda one: cut(" ".join((one.first_request or "").split()), 60)),
)  # fmt: skip

LINE: Fields[Line] = (
    *for_programs("message_id", "position", "role", "text", "archived"),
    Field("at", None, lambda one: one.at, MOMENT),
)

COVERING: Fields[Any] = for_programs("summary_id", "kind", "text")

HIT: Fields[Hit] = (
    Field("session", None, lambda one: document(SESSION, one.session)),
    *for_programs("message_id", "summary_id", "position", "role", "archived", "score"),
    Field("at", None, lambda one: one.at, MOMENT),
    Field("all_words", None, lambda one: one.whole),
    Field("excerpt", None, lambda one: one.excerpt.text),
    Field("marks", None, lambda one: [list(mark) for mark in one.excerpt.marks]),
    Field("covered_by", None, lambda one: one.covered_by and document(COVERING, one.covered_by)),
    Field("window", None, lambda one: documents(LINE, one.window)),
    Field("opening", None, lambda one: documents(LINE, one.opening)),
    Field("ending", None, lambda one: documents(LINE, one.ending)),
)

FOUND: Fields[Found] = (
    Field("hits", None, lambda one: documents(HIT, one.hits)),
    Field("next", None, lambda one: one.next),
    Field("notes", None, lambda one: list(one.notes)),
)

SCROLLED: Fields[Scrolled] = (
    Field("session", None, lambda one: document(SESSION, one.session)),
    Field("messages", None, lambda one: documents(LINE, one.lines)),
    *for_programs("before", "behind"),
)

PAGE: Fields[BrowsePage] = (
    Field("sessions", None, lambda one: documents(BROWSED, one.sessions)),
    Field("next", None, lambda one: None if one.next is None else f"{one.next[0]}-{one.next[1]}"),
)


def search(
    context: typer.Context,
    query: Annotated[
        str | None,
        typer.Argument(
            help='Words (any of them, ranked), "phrases", AND, OR, NOT, prefix*. Without it the '
            "last sessions are listed."
        ),
    ] = None,
    *,
    session: Annotated[str | None, typer.Option(help="Only in this session.")] = None,
    around: Annotated[
        int | None,
        typer.Option(metavar="MESSAGE", help="Show --session around the message of this id."),
    ] = None,
    window: Annotated[
        int, typer.Option(min=0, max=100, help="Messages on either side of a hit, or of --around.")
    ] = 2,
    role: Annotated[
        list[str] | None, typer.Option(help=f"Only these: {', '.join(ROLES)}. May be repeated.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Only this source, such as telegram.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From this date or time on (ISO 8601, UTC).")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Before this date or time.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Hits or sessions on a page.")] = 5,
    page: Annotated[
        str | None, typer.Option(metavar="MARK", help="The next page: what the last one ended on.")
    ] = None,
    all_owners: Annotated[
        bool, typer.Option("--all-owners", help="Sessions of every owner. This is recorded.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Search all messages, live and archived; rewound ones are never found."""
    invocation, output = Invocation.of(context), Output(as_json=as_json)
    with invocation.database() as (database, _):
        try:
            scope = Scope(
                invocation.owner,
                source=source,
                roles=check_roles(role),
                session=_key(database, invocation.owner, session),
                since=read_time("--since", since),
                until=read_time("--until", until),
            )
            if around is not None:
                _scroll(
                    output,
                    database,
                    invocation.owner,
                    session=session,
                    around=around,
                    window=window,
                )
            elif query is None:
                _browse(output, database, scope, limit, page, all_owners=all_owners)
            else:
                asked: dict[str, Any] = {"limit": limit, "after": page}
                found = (
                    _of_all_owners(database, query, scope, **asked)
                    if all_owners
                    else discover_caught_up(database, query, scope, **asked)
                )
                _show(output, found, window, all_owners=all_owners)
        except (RequestError, SearchMarkError) as error:
            raise CommandError(str(error), Exit.USAGE) from None


def _of_all_owners(database: Database, query: str, scope: Scope, **asked: Any) -> Found:
    if scope.session is not None:
        raise CommandError("--session belongs to an owner; leave --all-owners out", Exit.USAGE)
    return recall.discover_of_all_owners(
        database,
        query,
        operator=person(),
        source=scope.source,
        roles=scope.roles,
        since=scope.since,
        until=scope.until,
        **asked,
    )


def _key(database: Database, owner: str, session: str | None) -> int | None:
    if session is None:
        return None
    with database.read() as connection:
        return find_session(connection, owner=owner, session_id=session).key


def _show(output: Output, found: Found, window: int, *, all_owners: bool) -> None:
    if output.as_json:
        output.document(document(FOUND, found))
        return
    for note in found.notes:
        output.notice(f"Note: {note}.", style="yellow")
    if not found.hits:
        output.notice("Nothing was found.")
        return
    output.show(*hit_blocks(found.hits, window, all_owners=all_owners))
    if found.next:
        output.notice(f"More: the same with --page {found.next}", style="dim")


def _scroll(
    output: Output,
    database: Database,
    owner: str,
    *,
    session: str | None,
    around: int,
    window: int,
) -> None:
    if session is None:
        raise CommandError("--around needs --session beside it", Exit.USAGE)
    page = recall.scroll(
        database, owner=owner, session_id=session, message_id=around, window=window
    )
    if page is None:
        raise CommandError(
            f"session {session!r} has no message {around}; hits of a search show ids",
            Exit.NOT_FOUND,
        )
    if output.as_json:
        output.document(document(SCROLLED, page))
        return
    output.show(*scroll_blocks(page))
    for word, place in (("Before", page.before), ("Behind", page.behind)):
        if place is not None:
            output.notice(
                f"{word}: afterturn search --session {session} --around {place}", style="dim"
            )


def _browse(
    output: Output,
    database: Database,
    scope: Scope,
    limit: int,
    page: str | None,
    *,
    all_owners: bool,
) -> None:
    if all_owners:
        raise CommandError("--all-owners needs a QUERY; see `sessions list`", Exit.USAGE)
    found = recall.browse(database, scope, limit=limit, after=read_place(page))
    if output.as_json:
        output.document(document(PAGE, found))
        return
    if not found.sessions:
        output.notice("There are no sessions here.")
        return
    show_table(output, BROWSED, found.sessions)
    if found.next:
        output.notice(f"More: afterturn search --page {found.next[0]}-{found.next[1]}", style="dim")

"""What a search found, as JSON documents."""

from __future__ import annotations

from typing import Any

from afterturn.words import moment_utc
from storage.search import BrowsePage, Found, Hit, Line, Scrolled, SessionFacts


def found_document(found: Found) -> dict[str, Any]:
    """A page of hits, whole."""
    return {
        "hits": [_hit(hit) for hit in found.hits],
        "next": found.next,
        "notes": list(found.notes),
    }


def page_document(page: Scrolled) -> dict[str, Any]:
    """A piece of a session."""
    return {
        "session": _session(page.session),
        "messages": [_line(line) for line in page.lines],
        "before": page.before,
        "behind": page.behind,
    }


def sessions_document(page: BrowsePage) -> dict[str, Any]:
    """A page of sessions."""
    return {
        "sessions": [
            {
                **_session(one.session),
                "messages": one.messages,
                "first_request": one.first_request,
            }
            for one in page.sessions
        ],
        "next": None if page.next is None else f"{page.next[0]}-{page.next[1]}",
    }


def _hit(hit: Hit) -> dict[str, Any]:
    covered = hit.covered_by
    return {
        "session": _session(hit.session),
        "message_id": hit.message_id,
        "summary_id": hit.summary_id,
        "position": hit.position,
        "role": hit.role,
        "at": moment_utc(hit.at),
        "archived": hit.archived,
        "all_words": hit.whole,
        "score": hit.score,
        "excerpt": hit.excerpt.text,
        "marks": [list(mark) for mark in hit.excerpt.marks],
        "covered_by": None
        if covered is None
        else {"summary_id": covered.summary_id, "kind": covered.kind, "text": covered.text},
        "window": [_line(line) for line in hit.window],
        "opening": [_line(line) for line in hit.opening],
        "ending": [_line(line) for line in hit.ending],
    }


def _session(facts: SessionFacts) -> dict[str, Any]:
    return {
        "owner": facts.owner,
        "id": facts.id,
        "title": facts.title,
        "source": facts.source,
        "started_at": moment_utc(facts.started_at),
        "active_at": moment_utc(facts.active_at),
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "message_id": line.message_id,
        "position": line.position,
        "role": line.role,
        "at": moment_utc(line.at),
        "text": line.text,
        "archived": line.archived,
    }

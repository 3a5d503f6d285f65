"""Discover: from a question to a page of hits."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection
from sqlalchemy import text as sql

from storage import audit
from storage.audit import AuditAction
from storage.engine import Database
from storage.errors import DatabaseUnavailable
from storage.search import generations
from storage.search.candidates import Candidate, everything, from_index, not_indexed, with_pieces
from storage.search.documents import (
    Place,
    documents_of,
    number_of,
    part_of,
    parts,
    place_of,
    read_stored,
)
from storage.search.generations import Generation, GenerationState, Index, is_index_fault
from storage.search.indexing import note_fault
from storage.search.matching import Match, match, match_fragments, weight
from storage.search.query import Clause, Operand, Query, clauses_of, parse
from storage.search.results import Found, Mark, Rank, read_mark, write_mark
from storage.search.scope import Scope
from storage.search.surroundings import hits_of

MOST_RANKED = 60
"""Documents whose text is read to rank them; those after them keep the order of the index, by the
weight of their words."""

_RANKED, _BY_INDEX, _BY_PIECE = range(3)
_SCORE_UNITS = 10_000

BROKEN = (
    "the search index is broken, so only the newest messages were searched: "
    "run `afterturn db reindex`"
)
NOT_BUILT = "not all messages were searched, only the newest: no index answered"
BEHIND = (
    "many messages wait to be indexed, and only the newest of them were searched: "
    "is a worker running?"
)
NEWEST_PIECES = (
    "pieces of words were searched in the newest messages alone: this PostgreSQL does not have "
    "the extension pg_trgm"
)


def is_behind(found: Found) -> bool:
    """Return whether the same search would see more once what waits is indexed."""
    return BEHIND in found.notes or NOT_BUILT in found.notes


@dataclass(frozen=True, slots=True)
class _Entry:
    rank: Rank
    number: int
    match: Match | None


def discover(
    database: Database, text: str, scope: Scope, *, limit: int, after: str | None = None
) -> Found:
    """Return the messages and live summaries that answer `text`, the best first, at most `limit`.

    Each original appears once, live or archived, rewound ones never. `after` is the mark of the
    previous page; raises `SearchMarkError` for one of another question. No text raises. A broken
    index is recorded, and the newest messages are searched instead.
    """
    question = f"{text}\x00{scope}"
    mark = None if after is None else read_mark(after, question)
    asked = _Asked(parse(text), scope, limit, mark, question)
    for attempt in (1, 2):
        with database.read() as connection:
            generation = generations.searched(connection)
        index_used = generation if _works(generation) else None
        try:
            return asked.answer(database, index_used)
        except DatabaseUnavailable as error:
            if index_used is None or not is_index_fault(error):
                raise
            # A rebuild may just have dropped it; then there is another one by now.
            with database.read() as connection:
                now = generations.searched(connection)
            if attempt == 2 or now == generation:
                _note(database, index_used)
    return asked.answer(database, None)


def _works(generation: Generation | None) -> bool:
    return generation is not None and generation.state is GenerationState.SERVING


def _note(database: Database, generation: Generation) -> None:
    try:
        note_fault(database, generation.number)
    except DatabaseUnavailable:
        # A process that may not write to the file can still search.
        return


@dataclass(frozen=True, slots=True)
class _Asked:
    query: Query
    scope: Scope
    limit: int
    mark: Mark | None
    question: str

    def answer(self, database: Database, generation: Generation | None) -> Found:
        """Return the page, from an index or without one."""
        if not self.query.alternatives and not self.query.fragments:
            return Found(())
        with database.read() as connection:
            if database.dialect == "postgresql":
                # Compiling a statement takes longer than running any of these.
                connection.execute(sql("SELECT set_config('jit', 'off', true)"))
            search = _Search(
                connection, self.query, self.scope, generation, self.mark, wanted=self.limit + 1
            )
            entries = search.entries()
            page = entries[: self.limit]
            hits = hits_of(connection, _hits_asked(page), self.scope)
            notes = [*search.notes]
            if generation is None and generations.searched(connection) is not None:
                notes.append(BROKEN)
        following = None
        if len(entries) > self.limit:
            mark = Mark(search.newest, search.counts, page[-1].rank)
            following = write_mark(mark, self.question)
        return Found(tuple(hits), following, tuple(dict.fromkeys(notes)))


def _hits_asked(page: Iterable[_Entry]) -> list[tuple[int, Match]]:
    return [(entry.number, entry.match) for entry in page if entry.match is not None]


class _Search:
    """One search on one snapshot of the database."""

    def __init__(
        self,
        connection: Connection,
        query: Query,
        scope: Scope,
        generation: Generation | None,
        mark: Mark | None,
        *,
        wanted: int,
    ) -> None:
        self._connection = connection
        self._query = query
        self._scope = scope
        self._wanted = wanted
        self._mark = mark
        self._index: Index | None = None if generation is None else generation.index(connection)
        self.newest = generations.newest_rows(connection) if mark is None else mark.newest
        self.counts: tuple[int, ...] = ()
        self.notes: list[str] = []

    def entries(self) -> list[_Entry]:
        """Return the hits after the mark, each with its match: one more than a page, if there
        are."""
        clauses = clauses_of(self._query)
        candidates = self._candidates(clauses)
        weights = self._weights(clauses)
        ordered = self._ordered(candidates, weights)
        seen: set[Place] = set()
        found: list[_Entry] = []
        for entry in self._matched(ordered, weights, seen):
            place = place_of(entry.number)
            if place in seen:
                continue
            seen.add(place)
            if self._mark is None or entry.rank > self._mark.last:
                found.append(entry)
                if len(found) == self._wanted:
                    return found
        found += self._pieces(seen, self._wanted - len(found))
        return found

    def _candidates(self, clauses: list[Clause]) -> dict[int, Candidate]:
        if self._index is None:
            rows = everything(self._connection, self._scope, self.newest)
            if rows.more:
                self.notes.append(NOT_BUILT)
            self.counts = (0,) * len(clauses)
            return {number: Candidate() for number in self._numbers(rows.places)}
        last = number_of(Place(self.newest[0] + 1)) - 1
        first = number_of(Place(self.newest[1] + 1, is_summary=True)) + 1
        candidates, counts = from_index(
            self._connection, self._index, clauses, self._scope, newest=(last, first)
        )
        self.counts = counts if self._mark is None else self._mark.counts
        waiting = not_indexed(self._connection, self._scope, self.newest)
        if waiting.more:
            self.notes.append(BEHIND)
        for number in self._numbers(waiting.places):
            candidates.setdefault(number, Candidate())
        return candidates

    def _numbers(self, places: Iterable[Place]) -> list[int]:
        return [
            document.number
            for stored in read_stored(self._connection, list(places))
            for document in documents_of(stored)
        ]

    def _weights(self, clauses: list[Clause]) -> dict[Operand, float]:
        counts = self.counts if len(self.counts) == len(clauses) else (0,) * len(clauses)
        return {
            clause.weighs: weight(count)
            for clause, count in zip(clauses, counts, strict=True)
            if clause.weighs is not None
        }

    def _ordered(
        self, candidates: Mapping[int, Candidate], weights: Mapping[Operand, float]
    ) -> list[tuple[Rank, int]]:
        """Return the candidates in the order that follows from the index alone."""
        return sorted(
            (
                (
                    _BY_INDEX,
                    0 if candidate.whole else 1,
                    -_units(math.fsum(weights.get(one, 1.0) for one in candidate.operands)),
                    -abs(number),
                ),
                number,
            )
            for number, candidate in candidates.items()
        )

    def _matched(
        self,
        ordered: list[tuple[Rank, int]],
        weights: Mapping[Operand, float],
        seen: set[Place],
    ) -> Iterable[_Entry]:
        """Return the first ones by their text, then the rest as it is; only what really answers.
        The texts of previous pages are not read again."""
        head, rest = ordered[:MOST_RANKED], ordered[MOST_RANKED:]
        unknown = [entry for entry in rest if entry[0][1:3] == (1, 0)]
        # What is not indexed is known by its text alone.
        head += unknown
        rest = rest[: len(rest) - len(unknown)]
        ranked = []
        for number, text in self._texts(number for _, number in head).items():
            matched = match(self._query, text, weights)
            if matched is not None:
                tier = 0 if matched.whole else 1
                rank = (_RANKED, tier, -_units(matched.score), -abs(number))
                ranked.append(_Entry(rank, number, matched))
        yield from sorted(ranked, key=lambda entry: entry.rank)
        for at in range(0, len(rest), MOST_RANKED):
            some = rest[at : at + MOST_RANKED]
            if self._mark is not None and some[-1][0] <= self._mark.last:
                seen.update(place_of(number) for _, number in some)
                continue
            texts = self._texts(number for _, number in some)
            for rank, number in some:
                matched = match(self._query, texts.get(number, ""), weights)
                if matched is not None:
                    yield _Entry(rank, number, matched)

    def _pieces(self, seen: set[Place], wanted: int) -> list[_Entry]:
        """Return what has a piece of text inside of words, after everything else."""
        if wanted <= 0 or not self._query.fragments:
            return []
        numbers, newest_alone = with_pieces(
            self._connection,
            self._index,
            self._query.fragments,
            self._scope,
            newest=self.newest,
        )
        waiting = not_indexed(self._connection, self._scope, self.newest)
        numbers.update(self._numbers(waiting.places))
        if newest_alone and self._index is not None:
            self.notes.append(NEWEST_PIECES)
        entries: dict[Place, _Entry] = {}
        texts = self._texts(number for number in numbers if place_of(number) not in seen)
        for number, text in texts.items():
            matched = match_fragments(self._query.fragments, text)
            if matched is None:
                continue
            tier = 0 if matched.whole else 1
            entry = _Entry((_BY_PIECE, tier, -_units(matched.score), -abs(number)), number, matched)
            place = place_of(number)
            if place not in entries or entry.rank < entries[place].rank:
                entries[place] = entry
        ranked = sorted(entries.values(), key=lambda entry: entry.rank)
        if self._mark is not None:
            ranked = [entry for entry in ranked if entry.rank > self._mark.last]
        return ranked[:wanted]

    def _texts(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the texts of documents; of long messages the part."""
        wanted: dict[Place, list[int]] = {}
        for number in numbers:
            wanted.setdefault(place_of(number), []).append(number)
        texts: dict[int, str] = {}
        for stored in read_stored(self._connection, list(wanted)):
            whole = stored.text
            pieces = parts(whole)
            for number in wanted[stored.place]:
                start, end = pieces[part_of(number)]
                texts[number] = whole[start:end]
        return texts


def _units(score: float) -> int:
    return round(score * _SCORE_UNITS)


log = logging.getLogger(__name__)


def discover_of_all_owners(
    database: Database,
    text: str,
    *,
    operator: str,
    source: str | None = None,
    roles: tuple[str, ...] | None = None,
    since: int | None = None,
    until: int | None = None,
    limit: int,
    after: str | None = None,
) -> Found:
    """Return the same as `discover` over all owners. Every call is audited with the operator's name
    and the owners whose sessions were shown; neither the question nor the hits are."""
    scope = Scope(None, source=source, roles=roles, since=since, until=until)
    found = discover(database, text, scope, limit=limit, after=after)
    owners = sorted({hit.session.owner for hit in found.hits})
    with database.write() as connection:
        audit.record(
            connection,
            database,
            AuditAction.SEARCHED_ACROSS_OWNERS,
            actor=operator,
            facts={"what": "search", "found": len(found.hits), "owners": owners},
        )
    log.warning(
        "operator %r searched the sessions of all owners: %d hits of owners %s",
        operator,
        len(found.hits),
        ", ".join(map(repr, owners)) or "none",
    )
    return found

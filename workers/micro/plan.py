"""What the next micro pass of a session would do.

Reads the beginning of the live view up to the head's end, the end of it up to the tail's start,
and from the cursor on what it takes; never the session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from sqlalchemy import Connection

from storage import messages, views
from storage.guards import GuardName, GuardRecord
from storage.prospects import Prospect
from storage.rows import Kind, Row
from storage.sessions import SessionRecord
from storage.standing import Standing
from storage.views import View
from workers.compression_settings import CompressionSettings
from workers.due import Restraints, micro_may_run
from workers.exchanges import Exchange, Found, LookFurther, TooLittle, Unit, find_exchanges
from workers.limits import region_rules, session_threshold
from workers.micro.prospect import prospect_of
from workers.questions import question_key
from workers.redaction import redact
from workers.regions import RegionRules, head_end, tail_start
from workers.summariser.contract import Passage, SummaryRequest, Task
from workers.summariser.passages import fit, passage, passages, passages_size
from workers.summariser.prompts import TEMPLATE_VERSION
from workers.threshold import NoUsableWindowError
from workers.tokens import estimate_text
from workers.transcript import ToolGroup, tool_groups

_PAGE = 64
_HEAD_PAGE = 16
_FARTHEST = 1024
"""Rows behind a call after which its missing result is not looked for any further."""
_UNITS_AT_ONCE = 32
_ROWS_AS_STATEMENTS = 128
"""Outlines that are read in the time of the statements which a whole view saves."""
_CHARS_A_TOKEN = 4
"""Of the text that has most characters to a token (ENGINE.md §3)."""


@dataclass(frozen=True, slots=True)
class NothingDue:
    """No pass can be made now; `reason` says why in a few words."""

    reason: str


@dataclass(frozen=True, slots=True)
class PassPlan:
    """A pass as it is decided: what is asked, and what the answer would take the place of.

    For `Task.ABSORB`, `rows` are the rows to archive and `place` the position of the new marker;
    for `Task.DEFRAG` there are none and the marker stays. `marker` is the one that is replaced.
    `guards` are those that the session has. `cursor` is where the cursor would stand afterwards,
    be the rows absorbed or skipped; `is_last` says that too little for another pass would then be
    left behind it, and `prospect` then what is left, where the whole view was read. `settings` are
    those that it was decided by.
    """

    task: Task
    session: SessionRecord
    threshold_tokens: int
    rows: tuple[int, ...]
    first_position: int
    place: int
    absorbed_tokens: int
    marker: Row | None
    cursor_before: int
    cursor: int
    request: SummaryRequest
    question: str
    failures: int
    guards: frozenset[GuardName]
    is_last: bool
    settings: CompressionSettings
    prospect: Prospect | None = None


def plan_pass(
    connection: Connection,
    standing: Standing,
    settings: CompressionSettings,
    *,
    input_chars: int,
    fingerprint: int,
    today: date,
) -> PassPlan | NothingDue:
    """Decide the next micro pass of a session, in one short read.

    `input_chars` is what one request to the summariser may hold, `fingerprint` the summariser's,
    `today` the date for its prompt.
    """
    planner = _planner(connection, standing, settings, input_chars=input_chars, today=today)
    if isinstance(planner, NothingDue):
        return planner
    if not micro_may_run(planner.session, Restraints(settings, planner.guards, fingerprint)):
        return NothingDue("micro-compaction is held back")
    chosen = planner.choose()
    if isinstance(chosen, NothingDue):
        return chosen
    return planner.absorb(chosen) if chosen.exchanges else planner.defrag()


def why_nothing_due(
    connection: Connection, standing: Standing, settings: CompressionSettings
) -> NothingDue | None:
    """Why no pass can be made now; None when one can, guards apart. Reads no text of messages."""
    planner = _planner(connection, standing, settings, input_chars=0, today=date.min)
    chosen = planner if isinstance(planner, NothingDue) else planner.choose()
    return chosen if isinstance(chosen, NothingDue) else None


def _planner(
    connection: Connection,
    standing: Standing,
    settings: CompressionSettings,
    *,
    input_chars: int,
    today: date,
) -> _Planner | NothingDue:
    session = standing.session
    try:
        threshold = session_threshold(session, settings)
    except NoUsableWindowError as error:
        # The session's owner can mend that, the worker cannot; its turns go on being stored.
        return NothingDue(str(error))
    rules = region_rules(threshold, settings)
    view = _view(connection, session, rules)
    markers = view.markers
    return _Planner(
        connection=connection,
        view=view,
        session=session,
        rules=rules,
        settings=settings,
        threshold=threshold.tokens,
        micro=next((m for m in reversed(markers) if m.kind is Kind.MICRO), None),
        batch=next((m for m in reversed(markers) if m.kind is Kind.BATCH), None),
        cursor=standing.cursor,
        guards=standing.guards,
        input_chars=input_chars,
        today=today,
    )


def _view(connection: Connection, session: SessionRecord, rules: RegionRules) -> View:
    """The live view's head and its tail as they likely are; all of it if that is little more."""
    last = max(_PAGE, 2 * rules.protect_last_n, _rows_of_tail(session, rules) * 5 // 4)
    if session.live_messages < last + _ROWS_AS_STATEMENTS:
        last = max(last, session.live_messages + 1)
        return views.read(connection, session.key, first=0, last=last)
    return views.read(connection, session.key, first=_head_page(rules), last=last)


def _head_page(rules: RegionRules) -> int:
    return _HEAD_PAGE + rules.protect_first_n


def _rows_of_tail(session: SessionRecord, rules: RegionRules) -> int:
    """How many rows the tail has if they are as large as others."""
    size = max(1, session.live_tokens // max(1, session.live_messages))
    return min(rules.tail_budget // size, _FARTHEST)


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows of the middle that a pass could absorb, from the first on; `complete` means all."""

    rows: Sequence[Row] = ()
    complete: bool = False

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in self.rows)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The exchanges that a pass would absorb, out of what is held."""

    exchanges: tuple[Exchange, ...] = ()
    held: _Held = _Held()


@dataclass(frozen=True, slots=True)
class _Planner:
    connection: Connection
    view: View
    session: SessionRecord
    rules: RegionRules
    settings: CompressionSettings
    threshold: int
    micro: Row | None
    batch: Row | None
    cursor: int
    guards: Mapping[GuardName, GuardRecord]
    input_chars: int
    today: date

    @property
    def previous(self) -> str:
        return (self.micro.summary or "") if self.micro else ""

    def choose(self) -> _Chosen | NothingDue:
        """What a pass would absorb; nothing when it would rewrite the summary."""
        undone = self.guards.get(GuardName.UNDONE)
        if undone is not None and undone.subject == self.session.turns:
            return NothingDue("an undo waits for the next turn")
        if self._summary_is_too_long():
            return _Chosen()
        start = self._start()
        limit = self._limit()
        if start >= limit:
            return NothingDue("the middle is empty")
        held = self._held(start, limit)
        match self._find(held, start, limit):
            case TooLittle(tokens):
                return NothingDue(f"the middle holds {tokens} tokens, too few for a pass")
            case Found(exchanges):
                return _Chosen(exchanges, held)

    def _summary_is_too_long(self) -> bool:
        raised = self.guards.get(GuardName.DEFRAG_MARK)
        mark = self.settings.micro_compact_defrag_threshold_tokens
        return estimate_text(self.previous) > max(mark, (raised.subject or 0) if raised else 0)

    def _would_be_the_last(self, held: _Held, cursor: int) -> bool:
        """Whether too little for another pass would be left behind `cursor`."""
        left = [row.tokens for row in held.rows if row.position >= cursor]
        few = not left or sum(left) < self.settings.micro_compact_min_tokens
        return held.complete and few

    def _left_behind(self, cursor: int) -> Prospect | None:
        """What a next pass could absorb; None where not the whole view was read."""
        if not self.view.is_whole:
            return None
        enough = self.settings.micro_compact_min_tokens
        return prospect_of(self.view.last, cursor=cursor, enough=enough)

    def defrag(self) -> PassPlan:
        """A rewrite of the rolling summary alone."""
        size = estimate_text(self.previous)
        mark = self.settings.micro_compact_defrag_threshold_tokens
        return self._plan(
            Task.DEFRAG,
            target=min(size // 2, mark * 3 // 4),
            replaced=size,
            question=self._question_key(Task.DEFRAG, ()),
        )

    def absorb(self, chosen: _Chosen) -> PassPlan:
        """A pass over what was chosen, or over as much of it as one request holds."""
        exchanges = chosen.exchanges
        taken, shown, question, cut = self._fill(exchanges)
        last = max(row.position for row in taken)
        tokens = sum(row.tokens for row in taken)
        ids = tuple(row.id for row in taken)
        replaced = tokens + estimate_text(self.previous)
        defrag_at = self.settings.micro_compact_defrag_threshold_tokens
        failed = self.guards.get(GuardName.MICRO_FAILURES)
        first = min(row.position for row in taken)
        cursor = last + 1 if cut else max(last + 1, exchanges[-1].end)
        is_last = self._would_be_the_last(chosen.held, cursor)
        return self._plan(
            Task.ABSORB,
            target=min(defrag_at * 3 // 4, max(replaced // 2, 1)),
            replaced=replaced,
            question=self._question_key(Task.ABSORB, ids),
            rows=ids,
            first=first,
            place=last,
            tokens=tokens,
            cursor=cursor,
            is_last=is_last,
            prospect=self._left_behind(cursor) if is_last else None,
            shown=shown,
            asked=question,
            failures=failed.count if failed and failed.subject == first else 0,
        )

    def _plan(
        self,
        task: Task,
        *,
        target: int,
        replaced: int,
        question: str,
        rows: tuple[int, ...] = (),
        first: int | None = None,
        place: int | None = None,
        tokens: int = 0,
        cursor: int | None = None,
        shown: tuple[Passage, ...] = (),
        asked: str = "",
        failures: int = 0,
        is_last: bool = False,
        prospect: Prospect | None = None,
    ) -> PassPlan:
        at = self.micro.position if self.micro else 0
        return PassPlan(
            task=task,
            session=self.session,
            threshold_tokens=self.threshold,
            rows=rows,
            first_position=at if first is None else first,
            place=at if place is None else place,
            absorbed_tokens=tokens,
            marker=self.micro,
            cursor_before=self.cursor,
            cursor=self.cursor if cursor is None else cursor,
            request=SummaryRequest(
                task=task,
                previous=redact(self.previous),
                question=asked,
                passages=shown,
                target_tokens=target,
                replaced_tokens=replaced,
                today=self.today,
            ),
            question=question,
            failures=failures,
            guards=frozenset(self.guards),
            is_last=is_last,
            settings=self.settings,
            prospect=prospect,
        )

    def _question_key(self, task: Task, rows: tuple[int, ...]) -> str:
        return question_key(task=task, rows=rows, previous=self.previous, template=TEMPLATE_VERSION)

    def _start(self) -> int:
        """Position from which on rows may be absorbed: behind head, batch marker and cursor."""
        limit = _head_page(self.rules)
        while True:
            rows = self.view.forward(start=0, limit=limit)
            complete = len(rows) < limit
            settled = complete or limit > _FARTHEST
            end = head_end(rows, self.rules, complete=settled)
            if end < len(rows):
                head = rows[end].position
                break
            if complete:
                head = rows[-1].position + 1 if rows else 0
                break
            limit *= 2
        behind_batch = self.batch.position + 1 if self.batch else 0
        return max(head, behind_batch, self.cursor)

    def _limit(self) -> int:
        """Position at which the middle ends: the tail's start, or the open turn's."""
        limit = self.view.asked_last
        while True:
            rows = self.view.backward(limit=limit)
            first = tail_start(rows, self.rules)
            if first > 0 or len(rows) < limit:
                break
            limit *= 2
        tail = rows[first].position if first < len(rows) else self.session.next_position
        if not self.session.turn_open:
            return tail
        opened = self.view.newest_request()
        return tail if opened is None else min(tail, opened)

    def _find(self, held: _Held, start: int, limit: int) -> Found | TooLittle:
        if not held.rows or held.tokens < self.settings.micro_compact_min_tokens:
            return TooLittle(held.tokens)
        return self._find_from(self._turn_of(held.rows[0].position, start), limit)

    def _held(self, start: int, limit: int) -> _Held:
        """The first rows that could be absorbed, enough for a pass if there are so many.

        Where people write much and the agent little, this is all that is read.
        """
        most = _PAGE
        while True:
            rows = self.view.agent_rows(start=start, before=limit, limit=most)
            held = _Held(rows, complete=len(rows) < most)
            if held.complete or held.tokens >= self.settings.micro_compact_min_tokens:
                return held
            most *= 2

    def _turn_of(self, position: int, start: int) -> int:
        """Where to begin to read for the turn of a row: its request, or `start` behind that."""
        request = self.view.newest_request(before=position)
        return max(start, request or 0)

    def _find_from(self, start: int, limit: int) -> Found | TooLittle:
        page = _PAGE
        while True:
            rows = self.view.forward(start=start, limit=page)
            if not rows:
                return TooLittle(0)
            groups = tool_groups(rows)
            found = find_exchanges(
                rows,
                limit=limit,
                min_tokens=self.settings.micro_compact_min_tokens,
                tail_budget=self.rules.tail_budget,
                answered_elsewhere=self._answered_elsewhere(rows, groups, start),
                groups=groups,
                most_tokens=self.input_chars // _CHARS_A_TOKEN,
                complete=len(rows) < page,
                settled=page > _FARTHEST,
            )
            if not isinstance(found, LookFurther):
                return found
            page *= 2

    def _answered_elsewhere(
        self, rows: Sequence[Row], groups: Sequence[ToolGroup], start: int
    ) -> frozenset[str]:
        """Calls of live rows before `rows` that some of them answer."""
        grouped = {i for group in groups for i in group.members}
        strays = {a for i, row in enumerate(rows) if i not in grouped for a in row.answers}
        if not strays:
            return frozenset()
        return self.view.calls_before(start) & strays

    def _fill(
        self, exchanges: tuple[Exchange, ...]
    ) -> tuple[list[Row], tuple[Passage, ...], str, bool]:
        """Take whole units while they fit the summariser's input; the first one always.

        Gives the rows taken, their passages, the first request, and whether something was left.
        """
        units = [unit for exchange in exchanges for unit in exchange.units]
        request_of_first = self._request_of(exchanges[0])
        requests = [e.question.position for e in exchanges if e.question is not None]
        if request_of_first is not None and request_of_first not in requests:
            requests.append(request_of_first)
        found = self._read(units[:_UNITS_AT_ONCE], requests)
        asked = {position: passage(found[position]) for position in requests}
        question = "" if request_of_first is None else asked[request_of_first].text
        contents = self._contents(units, found)
        taken: list[Row] = []
        shown: list[Passage] = []
        size = 0
        for number, exchange in enumerate(exchanges):
            request = exchange.question if number else None
            before = [] if request is None else [asked[request.position]]
            for _ in exchange.units:
                whole = next(contents)
                more = [*before, *passages(whole)]
                size = passages_size(more, behind=size)
                if taken and size > self.input_chars:
                    return taken, tuple(shown), question, True
                taken.extend(whole)
                shown.extend(more)
                before = []
                # Only a first unit can be too large by itself; that one is cut.
                if size > self.input_chars:
                    shown = list(fit(shown, self.input_chars))
                    size = passages_size(shown)
        return taken, tuple(shown), question, False

    def _contents(self, units: Sequence[Unit], found: Mapping[int, Row]) -> Iterator[list[Row]]:
        """The rows of each unit with their messages, read some units at a time; those of the first
        units are `found`."""
        for i in range(0, len(units), _UNITS_AT_ONCE):
            chunk = units[i : i + _UNITS_AT_ONCE]
            if i:
                found = self._read(chunk)
            for unit in chunk:
                yield [found[row.position] for row in unit.rows]

    def _read(self, units: Sequence[Unit], requests: Sequence[int] = ()) -> dict[int, Row]:
        """Rows with their messages by position: those of units, and requests."""
        positions = [*requests, *(row.position for unit in units for row in unit.rows)]
        rows = messages.read_rows(self.connection, self.session.key, positions)
        return {row.position: row for row in rows}

    def _request_of(self, exchange: Exchange) -> int | None:
        """Position of what an exchange answers."""
        if exchange.question is not None:
            return exchange.question.position
        return self.view.newest_request(before=exchange.units[0].rows[0].position)

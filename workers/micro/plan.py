"""Decide what the next micro pass of a session does.

One bounded read returns what most decisions need: the beginning of the live view, the rows that a
pass may take from the cursor on, and the tail. See docs/explanation/micro.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from operator import attrgetter

from sqlalchemy import Connection

from storage.conversations import messages
from storage.conversations.micro_reads import MicroState, View, read_view
from storage.conversations.rows import Kind, Row
from storage.conversations.sessions import SessionRecord
from storage.guards import GuardName, GuardRecord
from workers.conversation.exchanges import (
    Exchange,
    Found,
    LookFurther,
    TooLittle,
    Unit,
    find_exchanges,
)
from workers.conversation.regions import RegionRules, head_end, tail_start
from workers.conversation.tokens import estimate_text
from workers.conversation.transcript import ToolGroup, tool_groups
from workers.policy.threshold import NoUsableWindowError, region_rules, session_threshold
from workers.redaction import redact
from workers.runtime.answer_store import answer_key
from workers.settings import CompressionSettings
from workers.summariser.contract import Passage, SummaryRequest, Task
from workers.summariser.passages import fit, passage, passages, passages_size
from workers.summariser.prompts import TEMPLATE_VERSION
from workers.turn.due import Restraints, least_for_micro, micro_may_run

_PAGE = 64
_HEAD_PAGE = 16
_FARTHEST = 1024
"""Rows after a call within which its missing result is searched."""
_MORE = 2
"""Factor by which the next page is larger if one was too short to decide."""
_UNITS_AT_ONCE = 32
_ROWS_AS_STATEMENTS = 128
"""Row outlines that can be read in the time that the statements saved by reading all at once
would take."""
_CHARS_A_TOKEN = 4
"""Most characters that a token may stand for."""

_POSITION = attrgetter("position")


@dataclass(frozen=True, slots=True)
class NothingDue:
    """No pass can be made now; `reason` says why in a few words.

    `checked` is the session if its rows were read and are too few: until it has grown, there is no
    point in reading them again.
    """

    reason: str
    checked: SessionRecord | None = None


@dataclass(frozen=True, slots=True)
class PassPlan:
    """A planned pass: the request, and the rows that its answer would replace.

    For `Task.ABSORB`, `rows` are the rows to archive and `place` the position of the new marker;
    for `Task.DEFRAG` there are no rows and the marker stays where it is. `marker` is the one that
    is replaced. `guards` are those that the session has. `cursor` is its position after the pass,
    whether the rows are absorbed or skipped. `is_last` says that too little for another pass would
    be left after that, and `checked_tokens` is the session's value then.
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
    answer_key: str
    failures: int
    guards: frozenset[GuardName]
    is_last: bool
    checked_tokens: int | None


def plan_pass(
    connection: Connection,
    state: MicroState,
    settings: CompressionSettings,
    *,
    input_chars: int,
    fingerprint: int,
    today: date,
) -> PassPlan | NothingDue:
    """Plan the next micro pass of a session in one short read.

    `input_chars` are the characters that fit one request to the summariser, `fingerprint` is the
    summariser's, `today` the date for its prompt.
    """
    planner = _planner(connection, state, settings, input_chars=input_chars, today=today)
    if isinstance(planner, NothingDue):
        return planner
    if not micro_may_run(planner.session, Restraints(settings, planner.guards, fingerprint)):
        return NothingDue("micro-compaction is suppressed")
    chosen = planner.choose()
    if isinstance(chosen, NothingDue):
        return chosen
    return planner.absorb(chosen) if chosen.exchanges else planner.defrag()


def why_nothing_due(
    connection: Connection, state: MicroState, settings: CompressionSettings
) -> NothingDue | None:
    """Return why no pass can be made now; None if one can. Most guards are not considered.

    Reads no text of messages.
    """
    planner = _planner(connection, state, settings, input_chars=0, today=date.min)
    chosen = planner if isinstance(planner, NothingDue) else planner.choose()
    return chosen if isinstance(chosen, NothingDue) else None


def _planner(
    connection: Connection,
    state: MicroState,
    settings: CompressionSettings,
    *,
    input_chars: int,
    today: date,
) -> _Planner | NothingDue:
    session = state.session
    try:
        threshold = session_threshold(session, settings)
    except NoUsableWindowError as error:
        # Only the session's owner can fix that; its turns are stored all the same.
        return NothingDue(str(error))
    rules = region_rules(threshold, settings)
    view = _view(connection, state, rules)
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
        cursor=state.cursor,
        guards=state.guards,
        input_chars=input_chars,
        today=today,
    )


def _view(connection: Connection, state: MicroState, rules: RegionRules) -> View:
    """Read all rows from the cursor on if they are little more than the tail; otherwise as many as
    most passes take, and the likely size of the tail."""
    session = state.session
    # No position is used twice, so this is an upper bound.
    rows = session.next_position - state.cursor
    size = max(1, session.unabsorbed_tokens // max(1, rows))
    tail = max(_PAGE, 2 * rules.protect_last_n, rules.tail_budget // size * 5 // 4)
    head = _head_page(rules)
    whole = rows <= tail + _ROWS_AS_STATEMENTS
    return read_view(
        connection,
        session.key,
        cursor=state.cursor,
        head=head,
        ahead=rows + 1 if whole else head + _PAGE,
        end=0 if whole else tail,
    )


def _head_page(rules: RegionRules) -> int:
    return _HEAD_PAGE + rules.protect_first_n


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The exchanges that a pass would absorb. `rows` are all rows of the agent in the middle, None
    if not all were read."""

    exchanges: tuple[Exchange, ...] = ()
    rows: Sequence[Row] | None = None


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
        """Return what a pass would absorb; no exchanges if it would rewrite the summary."""
        undone = self.guards.get(GuardName.UNDONE)
        if undone is not None and undone.subject == self.session.turns:
            return NothingDue("an undo waits for the next turn")
        if self._summary_is_too_long():
            return _Chosen()
        start = self._start()
        limit = self._limit()
        if start >= limit:
            return NothingDue("the middle is empty", self.session)
        ahead = self.view.ahead
        rows = [r for r in ahead.rows if start <= r.position < limit and r.is_of_agent]
        found = self._find(rows, start, limit)
        if isinstance(found, LookFurther):
            found = self._look_further(start, limit)
        if isinstance(found, TooLittle):
            reason = f"the middle holds {found.tokens} tokens, too few for a pass"
            return NothingDue(reason, self.session)
        return _Chosen(found.exchanges, rows if ahead.is_whole else None)

    def _summary_is_too_long(self) -> bool:
        raised = self.guards.get(GuardName.DEFRAG_MARK)
        mark = self.settings.micro_compact_defrag_threshold_tokens
        return estimate_text(self.previous) > max(mark, (raised.subject or 0) if raised else 0)

    def _would_be_the_last(self, chosen: _Chosen, cursor: int) -> bool:
        """Return whether too little for another pass would be left from `cursor` on."""
        if chosen.rows is None:
            return False
        left = [row.tokens for row in chosen.rows if row.position >= cursor]
        return not left or sum(left) < self.settings.micro_compact_min_tokens

    def _checked_behind(self, cursor: int) -> int | None:
        """Return the session's `checked_tokens` after a last pass: its unabsorbed tokens if their
        number alone would suggest that another pass is due."""
        left = sum(row.tokens for row in self.view.ahead.rows if row.position >= cursor)
        least = least_for_micro(self.session, self.settings)
        return None if least is None or left < least else left

    def defrag(self) -> PassPlan:
        """Plan a rewrite of the rolling summary alone."""
        size = estimate_text(self.previous)
        mark = self.settings.micro_compact_defrag_threshold_tokens
        return self._plan(
            Task.DEFRAG,
            target=min(size // 2, mark * 3 // 4),
            replaced=size,
            key=self._answer_key(Task.DEFRAG, ()),
        )

    def absorb(self, chosen: _Chosen) -> PassPlan:
        """Plan a pass over what was chosen, or over as much of it as fits one request."""
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
        is_last = self._would_be_the_last(chosen, cursor)
        return self._plan(
            Task.ABSORB,
            target=min(defrag_at * 3 // 4, max(replaced // 2, 1)),
            replaced=replaced,
            key=self._answer_key(Task.ABSORB, ids),
            rows=ids,
            first=first,
            place=last,
            tokens=tokens,
            cursor=cursor,
            is_last=is_last,
            checked_tokens=self._checked_behind(cursor) if is_last else None,
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
        key: str,
        rows: tuple[int, ...] = (),
        first: int | None = None,
        place: int | None = None,
        tokens: int = 0,
        cursor: int | None = None,
        shown: tuple[Passage, ...] = (),
        asked: str = "",
        failures: int = 0,
        is_last: bool = False,
        checked_tokens: int | None = None,
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
            answer_key=key,
            failures=failures,
            guards=frozenset(self.guards),
            is_last=is_last,
            checked_tokens=checked_tokens,
        )

    def _answer_key(self, task: Task, rows: tuple[int, ...]) -> str:
        return answer_key(task=task, rows=rows, previous=self.previous, template=TEMPLATE_VERSION)

    def _start(self) -> int:
        """Return the first position that may be absorbed: after head and batch marker, and not
        before the cursor."""
        behind_batch = self.batch.position + 1 if self.batch else 0
        return max(self._behind_head(), behind_batch, self.cursor)

    def _behind_head(self) -> int:
        head = self.view.head
        while True:
            complete = head.is_whole or len(head.rows) > _FARTHEST
            end = head_end(head.rows, self.rules, complete=complete)
            if end < len(head.rows):
                return head.rows[end].position
            if head.is_whole:
                return head.rows[-1].position + 1 if head.rows else 0
            head = self.view.beginning(_MORE * len(head.rows))

    def _limit(self) -> int:
        """Return the position at which the middle ends: the start of the tail or the open turn."""
        end = self.view.end
        while (first := tail_start(end.rows, self.rules)) == 0 and not end.is_whole:
            end = self.view.ending(max(_PAGE, _MORE * len(end.rows)))
        tail = end.rows[first].position if first < len(end.rows) else self.session.next_position
        if not self.session.turn_open:
            return tail
        opened = self.view.newest_request()
        return tail if opened is None else min(tail, opened)

    def _find(
        self, agents: Sequence[Row], start: int, limit: int
    ) -> Found | TooLittle | LookFurther:
        """Choose exchanges from the rows already read; `agents` are the agent's among them."""
        ahead, enough = self.view.ahead, self.settings.micro_compact_min_tokens
        tokens = sum(row.tokens for row in agents)
        if not agents or tokens < enough:
            return TooLittle(tokens) if ahead.is_whole else LookFurther()
        first = agents[0].position
        requests = (r.position for r in reversed(ahead.rows) if r.opens_turn and r.position < first)
        begin = max(start, next(requests, 0))
        rows = ahead.rows[bisect_left(ahead.rows, begin, key=_POSITION) :]
        return self._find_in(rows, begin, limit, complete=ahead.is_whole)

    def _look_further(self, start: int, limit: int) -> Found | TooLittle:
        """Choose exchanges, reading as many rows as that takes: for unusually large turns, and for
        sessions in which people write much and the agent little. There the agent's rows alone
        decide whether there is enough."""
        enough = self.settings.micro_compact_min_tokens
        page, complete = _PAGE, False
        while not complete:
            agents = messages.agent_rows(
                self.connection, self.session.key, start=start, before=limit, limit=page
            )
            tokens = sum(row.tokens for row in agents)
            complete = len(agents) < page or tokens >= enough
            page *= _MORE
        if not agents or tokens < enough:
            return TooLittle(tokens)
        request = self.view.newest_request(before=agents[0].position)
        begin, page = max(start, request or 0), _PAGE
        while True:
            rows = messages.read_forward(self.connection, self.session.key, start=begin, limit=page)
            complete, settled = len(rows) < page, page > _FARTHEST
            found = self._find_in(rows, begin, limit, complete=complete, settled=settled)
            if not isinstance(found, LookFurther):
                return found
            page *= _MORE

    def _find_in(
        self, rows: Sequence[Row], begin: int, limit: int, *, complete: bool, settled: bool = False
    ) -> Found | TooLittle | LookFurther:
        groups = tool_groups(rows)
        return find_exchanges(
            rows,
            limit=limit,
            min_tokens=self.settings.micro_compact_min_tokens,
            tail_budget=self.rules.tail_budget,
            answered_elsewhere=self._answered_elsewhere(rows, groups, begin),
            groups=groups,
            most_tokens=self.input_chars // _CHARS_A_TOKEN,
            complete=complete,
            settled=settled,
        )

    def _answered_elsewhere(
        self, rows: Sequence[Row], groups: Sequence[ToolGroup], start: int
    ) -> frozenset[str]:
        """Return the calls of live rows before `rows` that some of them answer."""
        grouped = {i for group in groups for i in group.members}
        strays = {a for i, row in enumerate(rows) if i not in grouped for a in row.answers}
        if not strays:
            return frozenset()
        return messages.live_calls_before(self.connection, self.session.key, start) & strays

    def _fill(
        self, exchanges: tuple[Exchange, ...]
    ) -> tuple[list[Row], tuple[Passage, ...], str, bool]:
        """Take whole units while they fit the summariser's input, and always the first one.

        Returns the rows taken, their passages, the first request, and whether any unit was left.
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
                # Only the first unit can be too large by itself; its passages are cut.
                if size > self.input_chars:
                    shown = list(fit(shown, self.input_chars))
                    size = passages_size(shown)
        return taken, tuple(shown), question, False

    def _contents(self, units: Sequence[Unit], found: Mapping[int, Row]) -> Iterator[list[Row]]:
        """Yield the rows of each unit with their messages, reading some units at a time; `found`
        holds the rows of the first units."""
        for i in range(0, len(units), _UNITS_AT_ONCE):
            chunk = units[i : i + _UNITS_AT_ONCE]
            if i:
                found = self._read(chunk)
            for unit in chunk:
                yield [found[row.position] for row in unit.rows]

    def _read(self, units: Sequence[Unit], requests: Sequence[int] = ()) -> dict[int, Row]:
        """Read the rows of units and requests with their messages, by position."""
        positions = [*requests, *(row.position for unit in units for row in unit.rows)]
        rows = messages.read_rows(self.connection, self.session.key, positions)
        return {row.position: row for row in rows}

    def _request_of(self, exchange: Exchange) -> int | None:
        """Return the position of the request that an exchange answers."""
        if exchange.question is not None:
            return exchange.question.position
        return self.view.newest_request(before=exchange.units[0].rows[0].position)

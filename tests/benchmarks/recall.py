"""How well and how fast the archive is searched, and what its index costs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count, islice

from sqlalchemy import text as sql

from producers import Gateway
from storage import migrate, search
from storage.engine import Database, open_database
from storage.search import Scope, generations
from tests.benchmarks.archive import OWNER, Vocabulary, fill, read_vocabulary
from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import DATABASES, Stage
from tests.benchmarks.timing import Measured, by_turns, milliseconds
from tests.support.sessions.conversations import data_lines, real_sessions, turn
from tests.support.sessions.gateways import gateway_on
from workers.settings import Settings

MOST_SLOWER = 5.0
MOST_APPEND_RATIO = 1.6
LEAST_HITS = 0.989
LEAST_SHORT_HITS = 0.95
TOP = 10

FULL_SENTENCES = (
    "What did the customer tell us about the cancelled reservation last year?",
    "Can you remember which insurance they had asked for on their flight to Chicago?",
    "Why was the certificate refused when the passenger wanted to change the cabin?",
    "Where is the note about the baggage allowance of gold members?",
    "Did anybody ever mention a refund that goes to the original payment method?",
)
"""Questions of which no message holds every word."""


def recalled(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Known items of CrossWOZ, and English questions in whole sentences, on both databases."""
    for kind in DATABASES:
        with _indexed(stage, kind, scale.talks) as (database, keys):
            yield from _known_items(database, kind, keys, scale)
            yield _sentences(database, kind)
            yield _size(database, kind)


def searched(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Yield the same questions to a large archive and to a small one."""
    vocabulary = read_vocabulary()
    questions = _questions(vocabulary)
    for kind in DATABASES:
        with (
            _filled(stage, kind, scale.archive, vocabulary) as large,
            _filled(stage, kind, scale.small_archive, vocabulary) as small,
        ):
            slow, fast = [], []
            for round_ in range(max(2, scale.repeats // 2 + 1)):
                for question in questions:
                    times = [_asking(database, question) for database in (large, small)]
                    if round_:
                        slow.append(times[0])
                        fast.append(times[1])
            yield Figure(
                f"search p95, {scale.archive:,} messages / {scale.small_archive:,}",
                kind,
                _p95(slow) / _p95(fast),
                "x",
                MOST_SLOWER,
                f"{_p95(slow):.1f} / {_p95(fast):.1f} ms, medians {_median(slow):.1f} / "
                f"{_median(fast):.1f}, {len(questions)} questions",
            )
            yield _size(large, kind, f"{scale.archive:,} messages")


def indexed_turns(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """`finalize_turn` where new messages are noted for the index, and where they are not."""
    for kind in DATABASES:
        with (
            stage.database(kind) as with_url,
            stage.database(kind) as without_url,
            ExitStack() as opened,
        ):
            gateways = []
            for url in (with_url, without_url):
                database = open_database(url)
                migrate.upgrade(database)
                if url == without_url:
                    _drop_triggers(database)
                database.close()
                gateways.append(
                    opened.enter_context(
                        Gateway(Settings(database_url=url, broker_url=None), owner=OWNER)
                    )
                )
            numbers = count()
            (compared,) = by_turns(
                _finishing(gateways[0], numbers),
                _finishing(gateways[1], numbers),
                rounds=3 * scale.rounds,
                warm_up=scale.warm_up,
            )
            database = open_database(with_url)
            started = time.perf_counter()
            indexed = search.index_pending(database)
            later = 1000 * (time.perf_counter() - started) / max(1, indexed.rows)
            database.close()
        yield Figure(
            "finalize_turn with indexing / without",
            kind,
            compared.ratio,
            "x",
            MOST_APPEND_RATIO,
            f"{compared}; {later:.2f} ms a message later, in a worker",
        )


@contextmanager
def _indexed(stage: Stage, kind: str, talks: int) -> Iterator[tuple[Database, dict[str, int]]]:
    """Yield sessions of CrossWOZ and tau-bench in one index, so many of each, and all their
    keys."""
    keys: dict[str, int] = {}
    with stage.database(kind) as url:
        database = open_database(url)
        migrate.upgrade(database)
        with gateway_on(url, owner=OWNER) as gateway:
            for name in ("crosswoz_test", "tau_bench_airline"):
                for session_id, messages in islice(real_sessions(name), talks):
                    opened = gateway.open_session(session_id)
                    gateway.finalize_turn(opened, messages)
                    keys[session_id] = opened.key
        search.index_pending(database, most=1_000_000)
        yield database, keys
        database.close()


@dataclass(frozen=True, slots=True)
class _Asked:
    query: str
    session: str
    evidence: tuple[int, ...]


def _known_items(
    database: Database, kind: str, keys: dict[str, int], scale: Scale
) -> Iterator[Figure]:
    asked = [one for one in known_items() if one.session in keys][:: scale.every_known_item]
    places = {(one.query, one.session, at) for one in asked for at in one.evidence}
    hits: dict[str, list[bool]] = {"all": [], "of two characters": []}
    anywhere: list[bool] = []
    took: list[float] = []
    for one in asked:
        scope = Scope(OWNER, session=keys[one.session])
        started = time.perf_counter()
        found = search.discover(database, one.query, scope, limit=TOP)
        took.append(1000 * (time.perf_counter() - started))
        hit = any(one_hit.position in one.evidence for one_hit in found.hits)
        hits["all"].append(hit)
        if len(one.query) == 2:
            hits["of two characters"].append(hit)
        everywhere = search.discover(database, one.query, Scope(OWNER), limit=TOP)
        anywhere.append(
            any((one.query, h.session.id, h.position) in places for h in everywhere.hits)
        )
    for name, least in (("all", LEAST_HITS), ("of two characters", LEAST_SHORT_HITS)):
        known = hits[name]
        yield Figure(
            f"known items of CrossWOZ, hit@{TOP}, {name}",
            kind,
            sum(known) / max(1, len(known)),
            "",
            None,
            f"{sum(known):,} of {len(known):,} in their sessions, one index over all",
            least,
        )
    yield Figure(
        f"known items of CrossWOZ, hit@{TOP}, all sessions searched at once",
        kind,
        sum(anywhere) / max(1, len(anywhere)),
        "",
        None,
        f"any message that is labelled with the query; p95 in one session {_p95(took):.1f} ms",
    )


def known_items() -> Iterator[_Asked]:
    """Yield the labelled queries of CrossWOZ."""
    for line in data_lines("crosswoz_qrels"):
        one = json.loads(line)
        yield _Asked(one["query"], one["session"], tuple(one["evidence"]))


def _sentences(database: Database, kind: str) -> Figure:
    empty = sum(
        not search.discover(database, sentence, Scope(OWNER), limit=TOP).hits
        for sentence in FULL_SENTENCES
    )
    return Figure(
        "English questions in whole sentences that find nothing",
        kind,
        empty,
        "",
        0.0,
        f"of {len(FULL_SENTENCES)}",
    )


def _size(database: Database, kind: str, of: str = "CrossWOZ and tau-bench") -> Figure:
    measure = "octet_length({})" if kind == "postgresql" else "length(CAST({} AS BLOB))"
    columns = " + ".join(f"coalesce(sum({measure.format(c)}), 0)" for c in ("content", "fields"))
    with database.read() as connection:
        text = int(connection.execute(sql(f"SELECT {columns} FROM messages")).scalar_one())
        generation = generations.searched(connection)
        assert generation is not None
        size = generation.index(connection).bytes_used(connection)
    return Figure(
        f"index size / text size, {of}",
        kind,
        size / max(1, text),
        "x",
        None,
        f"{size / 1e6:.1f} / {text / 1e6:.1f} MB",
    )


@contextmanager
def _filled(stage: Stage, kind: str, messages: int, vocabulary: Vocabulary) -> Iterator[Database]:
    with stage.database(kind) as url:
        database = open_database(url)
        migrate.upgrade(database)
        fill(database, messages, vocabulary)
        yield database
        database.close()


def _questions(vocabulary: Vocabulary) -> list[str]:
    """Return of every form, with words from the commonest to the rarest."""
    words, chinese = vocabulary.words, vocabulary.chinese
    ranks = (20, 60, 150, 400, 900, 1_800, 3_000, 4_500)
    some = [words[rank % len(words)] for rank in ranks]
    pairs = list(zip(some, some[1:] + some[:1], strict=True))
    return [
        *some,
        *(f"{a} {b}" for a, b in pairs),
        *(f'"{a} {b}"' for a, b in pairs[:4]),
        *(f"{a} AND {b}" for a, b in pairs[:4]),
        *(f"{a} NOT {b}" for a, b in pairs[4:]),
        *(f"{a[:4]}*" for a in some[2:6]),
        *(one[:2] for one in chinese[:: max(1, len(chinese) // 6)][:6]),
        *(one[:6] for one in chinese[:: max(1, len(chinese) // 6)][:6]),
        *FULL_SENTENCES,
        f"{some[3]} {chinese[0][:4]} {some[6]}",
    ]


def _drop_triggers(database: Database) -> None:
    on = {"search_message_added": "messages", "search_summary_added": "summaries"}
    with database.write() as connection:
        for trigger, table in on.items():
            suffix = f" ON {table}" if database.dialect == "postgresql" else ""
            connection.execute(sql(f"DROP TRIGGER {trigger}{suffix}"))


def _finishing(gateway: Gateway, numbers: Iterator[int]) -> Measured:
    session = gateway.open_session("measured")

    def measured() -> tuple[float]:
        messages = turn(next(numbers))
        return (milliseconds(lambda: gateway.finalize_turn(session, messages)),)

    return measured


def _asking(database: Database, question: str) -> float:
    return milliseconds(lambda: search.discover(database, question, Scope(OWNER), limit=TOP))


def _p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))] if values else 0.0


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0

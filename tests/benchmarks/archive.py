"""An archive of any number of messages by one owner, made by the database itself.

The words are those of real conversations, the commoner the oftener; every third message holds some
Chinese. A message is made from its number alone: a small archive is the beginning of a large one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sqlalchemy import text as sql

from storage import search
from storage.engine import Database
from tests.benchmarks.disk import tidy
from tests.support.sessions.conversations import real_sessions

OWNER = "o"
_WORDS = 5_000
_CHINESE = 2_000
_OF_A_SESSION = 100
_OF_A_MESSAGE = 14
_PAGE = 2_000
_PRIMES = (7919, 104_729, 15_485_863, 32_452_843, 49_979_687, 67_867_967, 86_028_121)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words and short Chinese texts, the commonest first."""

    words: tuple[str, ...]
    chinese: tuple[str, ...]


def read_vocabulary() -> Vocabulary:
    """Return the words that real conversations are made of."""
    english: Counter[str] = Counter()
    for _, session in real_sessions("tau_bench_airline"):
        for message in session:
            english.update(word for word in str(message.get("content")).split() if word.isalpha())
    chinese = [
        message["content"][:24]
        for _, session in real_sessions("crosswoz_test")
        for message in session
    ]
    common = [word for word, _ in english.most_common(_WORDS)]
    invented = [f"word{number}" for number in range(_WORDS - len(common))]
    return Vocabulary((*common, *invented), tuple(dict.fromkeys(chinese))[:_CHINESE])


def fill(database: Database, messages: int, vocabulary: Vocabulary) -> None:
    """Store so many messages and index them."""
    with database.write() as connection:
        connection.execute(sql("CREATE TABLE vocabulary (id bigint PRIMARY KEY, word text)"))
        connection.execute(sql("CREATE TABLE chinese (id bigint PRIMARY KEY, word text)"))
        for table, words in (("vocabulary", vocabulary.words), ("chinese", vocabulary.chinese)):
            connection.execute(
                sql(f"INSERT INTO {table} VALUES (:id, :word)"),
                [{"id": at, "word": word} for at, word in enumerate(words)],
            )
        sessions = max(1, messages // _OF_A_SESSION)
        connection.execute(sql(_SESSIONS), {"rows": sessions, "owner": OWNER})
        connection.execute(sql(_messages(vocabulary)), {"rows": messages})
        connection.execute(sql("DROP TABLE vocabulary"))
        connection.execute(sql("DROP TABLE chinese"))
        # A rebuild takes them in order of their ids, as they came.
        connection.execute(sql("DELETE FROM search_pending"))
    search.rebuild(database, page=_PAGE)
    tidy(database)


_NUMBERS = (
    "WITH RECURSIVE numbers (n) AS"
    " (SELECT CAST(0 AS bigint) UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :rows)"
)
_SESSIONS = (
    "INSERT INTO sessions (owner, id, source, title, started_at, active_at, next_position, turns)"
    f" {_NUMBERS} SELECT :owner, 's' || n, 'cli', 'talk ' || n, n, n, {_OF_A_SESSION}, 50"
    " FROM numbers"
)


def _messages(vocabulary: Vocabulary) -> str:
    words = len(vocabulary.words)
    chosen = " || ' ' || ".join(
        f"(SELECT word FROM vocabulary WHERE id = {_skewed(at, words)})"
        for at in range(_OF_A_MESSAGE)
    )
    chinese = f"(SELECT word FROM chinese WHERE id = (n * 31) % {len(vocabulary.chinese)})"
    return (
        "INSERT INTO messages (session_key, position, role, origin, opens_turn, tokens, content,"
        f" created_at) {_NUMBERS} SELECT 1 + n / {_OF_A_SESSION}, n % {_OF_A_SESSION},"
        " CASE n % 2 WHEN 0 THEN 'user' ELSE 'assistant' END,"
        " CASE n % 2 WHEN 0 THEN 'person' END, 1 - n % 2, 30,"
        f" {chosen} || CASE n % 3 WHEN 0 THEN ' ' || {chinese} ELSE '' END, n FROM numbers"
    )


def _skewed(at: int, words: int) -> str:
    """Return a number below `words` from the message's, small ones oftener: a product of three."""
    parts = [
        f"((n * {_PRIMES[(at + by) % len(_PRIMES)] % 9973 + 7 * at + by} + {at * 131 + by * 17})"
        f" % {1009 + 2 * by})"
        for by in range(3)
    ]
    return f"({' * '.join(parts)} / {1009 * 1011 * 1013 // words + 1})"

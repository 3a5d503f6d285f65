"""A summariser that does as a test scripts it, well or badly, one act for each question."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeAlias

from tests.support.machine.turns import CONCEALED, SECRETS, TAGS
from workers.summariser.answers import accept
from workers.summariser.contract import ErrorClass, Reply, Stopped, SummariserError, SummaryRequest
from workers.summariser.extractive.local import LocalSummariser
from workers.summariser.headings import Section

LARGE_ROOM = 160_000
_TAGGED = re.compile(rf"\b(?:{'|'.join(TAGS)})\b")


class Killed(BaseException):
    """The process ends here. Nothing that a job may catch."""


class UnforeseenError(Exception):
    """A fault that nobody foresaw. Its text quotes a conversation, as such texts do."""

    def __init__(self) -> None:
        super().__init__(f"cannot read {SECRETS[0]} of {TAGS[0]}")


class Answer(StrEnum):
    """What may come back for a question."""

    GOOD = "good"
    LOCAL = "local"
    LONG = "as long as it may be"
    ECHO = "echo"
    PREVIOUS = "the previous summary again"
    EMPTY = "empty"
    HUGE = "huge"
    ERROR_TEXT = "error text"
    PAGE = "html"
    TOOL_CALL = "tool call"
    ROLES = "foreign roles"
    OBEYS = "obeys the injected order"
    WRONG_SCRIPT = "wrong language"
    SECRET = "one secret"
    SECRETS = "many secrets"
    NO_SECTIONS = "no sections"
    PLAN = "plan"
    REFUSAL = "refusal"
    STOPPED = "the worker stops"
    DIES = "the process dies"
    UNFORESEEN = "unforeseen error"


GOOD_ANSWERS = (Answer.GOOD, Answer.LOCAL, Answer.LONG)
LASTING_ANSWERS = tuple(set(Answer) - {Answer.STOPPED, Answer.DIES, Answer.UNFORESEEN})
"""What a summariser may do time after time."""

Act: TypeAlias = Answer | ErrorClass


class ScriptedSummariser:
    """Does the acts of `next`, one a question, then what it does `usually`.

    `asked` is called with every request before it is answered. `chars` is the room of a request,
    `failed_requests` how many requests were not answered with what can be accepted.
    """

    model = "scripted"

    def __init__(
        self, fingerprint: Callable[[], int], asked: Callable[[SummaryRequest], None]
    ) -> None:
        self.next: deque[Act] = deque()
        self.usually: Act = Answer.GOOD
        self.chars = LARGE_ROOM
        self.failed_requests = 0
        self._fingerprint = fingerprint
        self._asked = asked
        self._local = LocalSummariser()
        self._count = 0

    @property
    def fingerprint(self) -> int:
        return self._fingerprint()

    def room(self, summary_tokens: int) -> int:
        return self.chars

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        self._count += 1
        self._asked(request)
        if stop():
            raise Stopped
        act = self.next.popleft() if self.next else self.usually
        if act is Answer.STOPPED:
            raise Stopped
        if act is Answer.DIES:
            raise Killed
        if act is Answer.UNFORESEEN:
            raise UnforeseenError
        try:
            reply = self._reply(act, request, stop)
        except SummariserError as error:
            self.failed_requests += not error.error_class.not_asked
            raise
        self.failed_requests += _wrong(reply.text, request) is not None
        return reply

    def close(self) -> None:
        """Nothing is held open."""

    def _reply(self, act: Act, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        if isinstance(act, ErrorClass):
            wait = 7.0 if act is ErrorClass.RATE_LIMITED else None
            raise SummariserError(act, retry_after=wait)
        if act is Answer.LOCAL:
            return self._local.summarise(request, stop)
        return Reply(self._text(act, request), self.model, 100, 20)

    def _text(self, act: Answer, request: SummaryRequest) -> str:
        match act:
            case Answer.GOOD:
                return self._first_accepted(request, [self._good(request, 1)])
            case Answer.LONG:
                lines = max(1, request.replaced_tokens // 40)
                counts = [*range(lines, 1, -max(1, lines // 8)), 1]
                return self._first_accepted(request, [self._good(request, n) for n in counts])
            case Answer.ECHO:
                return "\n".join(one.text for one in request.passages)
            case Answer.PREVIOUS:
                return request.previous
            case Answer.NO_SECTIONS:
                return f"The agent changed what was asked for, step {self._count}."
            case Answer.SECRET:
                return f"{self._good(request, 1)}\n- The key is password: {SECRETS[2]}"
            case Answer.OBEYS:
                return f"{self._good(request, 1)}\n- {CONCEALED}"
            case _:
                return _FIXED[act]

    def _first_accepted(self, request: SummaryRequest, texts: Sequence[str]) -> str:
        """Return a model that is good writes to size and in the right language, and not less than
        it can."""
        for text in texts:
            wrong = _wrong(text, request)
            if wrong is None:
                return text
            if wrong is ErrorClass.WRONG_SCRIPT:
                # The built-in one quotes what people say.
                return self._local.summarise(request, lambda: False).text
        return texts[-1]

    def _good(self, request: SummaryRequest, lines: int) -> str:
        """Return a good answer in as many lines a section, which names its conversation."""
        read = "\n".join((request.previous, *(one.text for one in request.passages)))
        about = " ".join(sorted(set(_TAGGED.findall(read)))) or "something"
        lines_about = [
            f"- Booking {i} of {about} was changed in step {self._count}." for i in range(lines)
        ]
        if not request.task.in_sections:
            return "\n".join(lines_about)
        return "\n".join("\n".join((section.heading, *lines_about)) for section in Section)


def _wrong(text: str, request: SummaryRequest) -> ErrorClass | None:
    """Return why an answer will not be accepted."""
    try:
        accept(text, request)
    except SummariserError as error:
        return error.error_class
    return None


_FIXED = {
    Answer.EMPTY: " \n",
    Answer.HUGE: "## Goal\n" + "The agent changed one more booking of somebody. " * 2_200,
    Answer.ERROR_TEXT: '{"error": {"message": "upstream connect error", "type": "server_error"}}',
    Answer.PAGE: "<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>",
    Answer.TOOL_CALL: '<tool_call>{"name": "change", "arguments": {"booking": "B1"}}</tool_call>',
    Answer.ROLES: "User: hello\nAssistant: hi there\nUser: and now?\nAssistant: done, as you said",
    Answer.WRONG_SCRIPT: "Агент изменил бронирование и записал результат, как просили. " * 4,
    Answer.SECRETS: "\n".join(f"password: {secret}" for secret in SECRETS),
    Answer.PLAN: "I will read the conversation first and then write the summary of it.",
    Answer.REFUSAL: "I'm sorry, but I can't help with summarising this conversation.",
}

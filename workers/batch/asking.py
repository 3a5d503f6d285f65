"""Ask for a batch summary, part by part; what was answered once is never asked again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from storage import answers
from storage.answers import StoredAnswer
from workers.batch.requests import Ask, Requests
from workers.keeping import keep_answer
from workers.summariser.answers import accept
from workers.summariser.contract import Stopped, SummariserError
from workers.summariser.passages import passages_size
from workers.workshop import Workshop


@dataclass(slots=True)
class Meter:
    """What the asking of one pass has cost so far: requests sent, tokens, milliseconds; and the
    characters of the passages that were asked about last."""

    requests: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    model_ms: int = 0
    asked_chars: int = 0

    def count(self, answer: StoredAnswer) -> None:
        self.prompt_tokens = _sum(self.prompt_tokens, answer.prompt_tokens)
        self.completion_tokens = _sum(self.completion_tokens, answer.completion_tokens)
        self.model_ms += answer.model_ms


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks for one session. `stop` tells that the worker gives up; `meter` counts, `more_time` is
    called before each question but the first: every answer is progress."""

    shop: Workshop
    key: int
    meter: Meter
    stop: Callable[[], bool]
    more_time: Callable[[], None]

    def ask(self, requests: Requests) -> StoredAnswer:
        """Get the summary; raises `SummariserError` and `Stopped`.

        Each accepted answer is stored before the next question, so an error or a crash costs no
        part that was answered, and a worker that stops may end between two.
        """
        answered = [self._one(ask) for ask in requests.parts]
        while len(answered) > 1:
            groups = requests.groups([answer.text for answer in answered])
            answered = self._joined(requests, groups, answered[-1])
        return answered[0]

    def _joined(
        self, requests: Requests, groups: Sequence[Sequence[str]], newest: StoredAnswer
    ) -> list[StoredAnswer]:
        last = len(groups) == 1
        return [
            self._one(requests.join(group, last=last)) if len(group) > 1 else newest
            for group in groups
        ]

    def _one(self, ask: Ask) -> StoredAnswer:
        with self.shop.database.read() as connection:
            answer = answers.find(connection, self.key, ask.question)
        if answer is None:
            answer = self._asked(ask)
        self.meter.count(answer)
        return answer

    def _asked(self, ask: Ask) -> StoredAnswer:
        if self.meter.requests:
            if self.shop.stopping():
                raise Stopped("what was answered is stored; another worker asks for the rest")
            self.more_time()
        self.meter.asked_chars = passages_size(ask.request.passages)
        started = time.monotonic()
        try:
            reply = self.shop.summariser.summarise(ask.request, self.stop)
        except SummariserError as error:
            self.meter.requests += error.requests
            raise
        self.meter.requests += reply.requests
        answer = StoredAnswer(
            text=accept(reply.text, ask.request),
            model=reply.model,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            model_ms=int(1000 * (time.monotonic() - started)),
        )
        self.shop.reach("replied")
        keep_answer(self.shop, self.key, ask.question, answer)
        return answer


def _sum(so_far: int | None, more: int | None) -> int | None:
    return so_far if more is None else (so_far or 0) + more

"""Many threads that do something at the same moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Barrier, Thread
from typing import Generic, TypeVar

Result = TypeVar("Result")


class _Runner(Thread, Generic[Result]):
    def __init__(self, call: Callable[[], Result], start: Barrier) -> None:
        super().__init__(daemon=True)
        self._call = call
        self._start = start
        self.result: Result | Exception = AssertionError("still runs")

    def run(self) -> None:
        self._start.wait()
        try:
            self.result = self._call()
        except Exception as error:  # noqa: BLE001 - the test looks at whatever it is
            self.result = error


def at_once(
    calls: Sequence[Callable[[], Result]], *, seconds: float = 60.0
) -> list[Result | Exception]:
    """Call all of them from a thread each, released together; return results or errors in order."""
    start = Barrier(len(calls))
    runners = [_Runner(call, start) for call in calls]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join(seconds)
    return [runner.result for runner in runners]


def succeeded(results: Sequence[Result | Exception]) -> list[Result]:
    """Return the results; raises the first error."""
    good = []
    for result in results:
        if isinstance(result, Exception):
            raise result
        good.append(result)
    return good

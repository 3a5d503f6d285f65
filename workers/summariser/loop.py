"""An event loop in a thread of its own, for callers that live in other threads."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopThread:
    """Runs coroutines for any number of threads until it is closed.

    It lives in the process that made it: after a fork the child has no such thread. `close` may
    be called once, from another thread.
    """

    def __init__(self, name: str) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def inherited(self) -> bool:
        """True in a child process that was forked from the one with the thread."""
        return self._pid != os.getpid()

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Start `work`; cancelling the future cancels it at its next await."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Cancel what runs, then run `last`, then end the thread."""
        self.submit(self._wind_up(last)).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _wind_up(self, last: Coroutine[Any, Any, None]) -> None:
        for task in self._others():
            task.cancel()
        await self._come_to_rest()
        await last
        await self._loop.shutdown_asyncgens()
        await self._come_to_rest()

    async def _come_to_rest(self) -> None:
        """Wait for every task, those included that close what an ended one let go of.

        A generator that is still being closed when its loop stops is closed again by the garbage
        collector, which cannot await.
        """
        while others := self._others():
            await asyncio.gather(*others, return_exceptions=True)
            await asyncio.sleep(0)

    def _others(self) -> set[asyncio.Task[Any]]:
        return asyncio.all_tasks() - {asyncio.current_task()}

"""Something long that Ctrl-C ends in order."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread


def until_done(
    action: Callable[[], None], interrupted: Event, on_interrupt: Callable[[], None]
) -> None:
    """Run `action` in a thread and wait for its end; raises what it raises.

    Ctrl-C sets `interrupted`, which the action is to heed, and calls `on_interrupt`; a second one
    is raised here at once.
    """
    ended = Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            errors.append(error)
        finally:
            ended.set()

    Thread(target=run, name="afterturn-compact", daemon=True).start()
    try:
        ended.wait()
    except KeyboardInterrupt:
        interrupted.set()
        on_interrupt()
        ended.wait()
    if errors:
        raise errors[0]

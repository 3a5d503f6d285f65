"""Inform users of what happens to their conversation.

    afterturn up                                    # in another terminal
    python examples/hear_signals.py

A gateway would do this in a thread of its own, for all of its sessions.
"""

from afterturn import Gateway, SignalKind


def sentence(signal):
    """Return what the user of the session should read, or None."""
    match signal.kind:
        case SignalKind.STARTED:
            return "One moment, I am putting my notes in order."
        case SignalKind.FINISHED:
            before, after = signal.facts["tokens_before"], signal.facts["tokens_after"]
            return f"Done: {before:,} tokens became {after:,}. Nothing was deleted."
        case SignalKind.STUCK | SignalKind.RESET:
            return signal.facts["sentence"]
        case _:
            return None


def main():
    with Gateway() as gateway:
        session = gateway.open_session(system_prompt="Be brief.", context_window=16_000)
        for number in range(60):
            said = {"role": "user", "content": f"Item {number}: " + "two chairs, one lamp. " * 20}
            heard = {"role": "assistant", "content": f"Item {number} is on the list. " * 20}
            gateway.finalize_turn(session, [said, heard], event_id=f"item-{number}")
        start = max((s.id for s in gateway.signals(quiet=True)), default=0)
        result = gateway.compact(session, wait=60)  # a person asks
        print(f"The request: {result.reason}")
        if not result.changed:
            return
        for signal in gateway.listen(after=start, quiet=True):
            if signal.session_id == session.id and (text := sentence(signal)):
                print(f"{signal.kind}: {text}")
            if signal.kind in (SignalKind.FINISHED, SignalKind.FAILED):
                break


if __name__ == "__main__":
    main()

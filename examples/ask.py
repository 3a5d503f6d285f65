"""Ask a model, with compaction before the request and after a refusal.

    afterturn up                                    # in another terminal
    python examples/ask.py

`send` simulates a provider that takes at most 60 messages.
"""

from afterturn import CompressionStuck, Gateway


def ask(gateway, session, question, send):
    """Send one request and return the answer; compact the session where that is needed."""
    system = {"role": "system", "content": session.system_prompt}
    try:
        ready = gateway.preflight(session, wait=30)  # compacts first if it is too large
        if not (ready.go or ready.fits):
            return f"This cannot be sent yet: {ready.reason}. Please try again in a minute."
        context = gateway.load_context(session)
        try:
            return send([system, *context.messages, question])
        except ValueError as error:  # the error of your provider's client
            verdict = gateway.report_error(session, error, wait=60)
            if not verdict.retry:
                raise
        context = gateway.load_context(session)  # the smaller view
        return send([system, *context.messages, question], max_tokens=verdict.max_output)
    except CompressionStuck as stuck:
        return stuck.sentence  # for the user: start a new session


def send(messages, max_tokens=None):  # noqa: ARG001 - a real client takes it
    """Simulate a provider whose window holds 60 messages."""
    if len(messages) > 60:
        raise ValueError("This model's maximum context length is 8192 tokens, you sent 9001.")
    return f"Answered from {len(messages)} messages."


def main():
    with Gateway() as gateway:
        session = gateway.open_session(system_prompt="Be brief.", context_window=16_000)
        for number in range(40):
            said = {"role": "user", "content": f"Note {number}: " + "the hall is free. " * 12}
            heard = {"role": "assistant", "content": f"Noted {number}. " + "It is free. " * 12}
            gateway.finalize_turn(session, [said, heard], event_id=f"note-{number}")
        question = {"role": "user", "content": "Which notes did I give you?"}
        print(ask(gateway, session, question, send))


if __name__ == "__main__":
    main()

"""A chat bot with a tool and a memory that does not overflow.

    afterturn up                                    # in another terminal
    python examples/chat_bot.py                     # type questions, end with Ctrl-D

`model` replaces a real one, so no key is needed.
"""

import json
import sys
import uuid

from afterturn import Gateway

SYSTEM = "You answer questions about weather stations. Be brief."


def look_up(question):
    """Return a long report, as a tool would, of which the answer needs one line."""
    hours = "\n".join(f"{hour:02}:00  {8 + hour % 12}.4 °C  wind 3 m/s" for hour in range(48))
    return f"Report on {question!r}: 14.2 °C and calm.\n{hours}"


def model(messages):
    """Simulate a chat model: call the tool once, then answer from its result."""
    last = messages[-1]
    if last["role"] == "user":
        call = {"name": "look_up", "arguments": json.dumps({"question": last["content"]})}
        calls = [{"id": uuid.uuid4().hex, "type": "function", "function": call}]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    return {"role": "assistant", "content": last["content"].splitlines()[0]}


def answer(gateway, session, text):
    """Answer one question, and store the turn."""
    system = {"role": "system", "content": session.system_prompt}
    context = gateway.load_context(session)
    turn = [{"role": "user", "content": text}]
    while turn[-1]["role"] != "assistant" or turn[-1].get("tool_calls"):
        turn.append(model([system, *context.messages, *turn]))
        for call in turn[-1].get("tool_calls", ()):
            result = look_up(json.loads(call["function"]["arguments"])["question"])
            turn.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    gateway.finalize_turn(session, turn, event_id=uuid.uuid4().hex)
    return turn[-1]["content"], context


def main():
    with Gateway() as gateway:
        session = gateway.open_session(
            "weather", system_prompt=SYSTEM, model="stub", context_window=16_000
        )
        for line in sys.stdin:
            reply, context = answer(gateway, session, line.strip())
            print(f"{reply}  [{context.tokens:,} tokens before]")


if __name__ == "__main__":
    main()

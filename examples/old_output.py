"""Old tool output in one line each, and a tool that reads it again.

AFTERTURN_CONFIG=examples/old_output.yaml afterturn up      # in another terminal
AFTERTURN_CONFIG=examples/old_output.yaml python examples/old_output.py
"""

import re
import time

from afterturn import Gateway, HandleError, OutputNotFound

NOTE = re.compile(r"whole: (out-\d+-\d+)⟧")


def read_again(gateway, handle):
    """Return old tool output by the handle at the end of a note; offer this to your model."""
    try:
        return gateway.fetch_output(handle).text
    except (HandleError, OutputNotFound) as error:
        return str(error)


def run_tests(gateway, session, number):
    """Store a turn in which the agent ran the tests and got a long log."""
    log = "\n".join(f"tests/test_{number}.py::case_{case} PASSED" for case in range(300))
    function = {"name": "bash", "arguments": f'{{"command": "pytest tests/test_{number}.py"}}'}
    call = {"id": f"call-{number}", "type": "function", "function": function}
    turn = [
        {"role": "user", "content": f"Run test file {number}."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": log},
        {"role": "assistant", "content": "All 300 cases passed."},
    ]
    gateway.finalize_turn(session, turn, event_id=f"run-{number}")


def main():
    with Gateway() as gateway:
        session = gateway.open_session(model="stub", context_window=128_000)
        for number in range(12):
            run_tests(gateway, session, number)
        notes = []
        while not notes:  # until the worker has pruned
            time.sleep(0.1)
            view = gateway.load_context(session).messages
            notes = [m["content"] for m in view if NOTE.search(str(m["content"]))]
        print(f"{len(notes)} outputs are shown in one line each, such as:")
        print(notes[0])
        whole = read_again(gateway, NOTE.search(notes[0])[1])
        print(f"Read again: {len(whole):,} characters, from {whole.splitlines()[0]!r} on.")


if __name__ == "__main__":
    main()

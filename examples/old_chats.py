"""Bring old conversations in from a store of your own.

    python examples/old_chats.py > old.jsonl
    afterturn import old.jsonl --source archive
    afterturn recompact --source archive --yes      # needs workers: `afterturn up`

An import takes one session a line: `{"id": …, "messages": […]}` with OpenAI chat messages.
"""

import json
import sys


def old_store():
    """Return what a store of your own might hold: pairs of question and answer."""
    for customer in range(3):
        pairs = [
            (
                f"Order {order} of customer {customer}: " + "where is my parcel? " * 15,
                f"Parcel {order} is on its way. " + "It left the depot this morning. " * 30,
            )
            for order in range(150)
        ]
        yield f"customer-{customer}", pairs


def as_session(name, pairs):
    """Return a session in the form that `afterturn import` reads."""
    messages = [{"role": "system", "content": "You answer questions about parcels."}]
    for question, answer in pairs:
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": answer})
    return {"id": name, "title": f"Parcels of {name}", "messages": messages}


def main():
    for name, pairs in old_store():
        json.dump(as_session(name, pairs), sys.stdout, ensure_ascii=False)
        print()


if __name__ == "__main__":
    main()

"""A tool with which an agent finds what was said in any earlier conversation.

    python examples/recall_tool.py

No worker is needed: messages that are not indexed yet are read directly.
"""

import json

from afterturn import SESSION_SEARCH_TOOL, Gateway, RequestError, SearchMarkError, SessionNotFound


def session_search(gateway, arguments):
    """Run the tool with the arguments that a model wrote, and return text for the model."""
    try:
        found = gateway.search(**json.loads(arguments))
    except (RequestError, SearchMarkError, SessionNotFound, ValueError, TypeError) as error:
        return str(error)
    return json.dumps(found, ensure_ascii=False)


def main():
    with Gateway() as gateway:
        session = gateway.open_session("venue", source="telegram", title="The venue")
        question = {"role": "user", "content": "What did we decide about the venue?"}
        answer = {"role": "assistant", "content": "We take the hall by the river."}
        gateway.finalize_turn(session, [question, answer], event_id="update-1")

        print("Offered to the model:", SESSION_SEARCH_TOOL["function"]["name"])
        found = json.loads(session_search(gateway, '{"query": "river hall"}'))
        for hit in found["hits"]:
            print(f"{hit['session']['id']}, message {hit['message_id']}: {hit['excerpt']}")
        print("A wrong argument:", session_search(gateway, '{"query": "hall", "limit": 900}'))


if __name__ == "__main__":
    main()

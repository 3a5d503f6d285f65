"""What identifies a question to a summariser, so that its answer is paid for once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from workers.summarising import Task


def question_key(
    *, task: Task, rows: Sequence[int], previous: str, template: str, focus: str = ""
) -> str:
    """A key of 64 hex digits over what is asked: covered row ids, previous summary, template.

    Not the prompt's text, which holds a date and a budget (ARCHITECTURE.md, *Protocol*).
    """
    facts = [task.value, list(rows), previous, template, focus]
    text = json.dumps(facts, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()

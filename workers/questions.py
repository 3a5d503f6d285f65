"""What identifies a question to a summariser, so that its answer is paid for once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from workers.summariser.contract import Task

BATCH_QUESTIONS = "batch:"


def question_key(
    *, task: Task, rows: Sequence[int], previous: str, template: str, focus: str = ""
) -> str:
    """A key over what is asked: covered row ids, previous summary, template, focus.

    Not the prompt's text, which holds a date and a budget (ARCHITECTURE.md, *Protocol*). It
    begins with the name of the job kind that asks, `batch:`; those of micro bear none.
    """
    facts = [task.value, list(rows), previous, template, focus]
    text = json.dumps(facts, ensure_ascii=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{BATCH_QUESTIONS}{digest}" if task.in_sections else digest

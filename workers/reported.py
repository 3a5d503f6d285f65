"""What gateways reported of a request, and what it is good for (ENGINE.md §3)."""

from __future__ import annotations

import json

from storage.events import Report
from storage.sessions import SessionRecord
from workers.calibration import Calibration
from workers.limits import session_window
from workers.managed import managed_by
from workers.settings import CompressionSettings


def counted_prompt(report: Report) -> int | None:
    """Tokens of the prompt as the provider counted them.

    None where that is not told, and where another revision of the view was sent than the one that
    was stored when the report came: then our estimate is of another view.
    """
    try:
        usage = json.loads(report.usage)
        prompt, revision = usage.get("prompt_tokens"), usage.get("revision")
    except (ValueError, AttributeError):
        return None
    if not isinstance(prompt, int) or revision not in (None, report.revision):
        return None
    return prompt


def current_prompt(report: Report, session: SessionRecord) -> int | None:
    """The same, where the session's view has not been changed since: only then it triggers."""
    return counted_prompt(report) if report.revision == session.revision else None


def recalibrated(
    report: Report, session: SessionRecord, settings: CompressionSettings
) -> Calibration | None:
    """The session's calibration with the report taken in; None where it teaches nothing.

    Where somebody else compacts, what was counted is not the view that we know of.
    A view that was compacted after its report is still one that was sent and counted. But the
    first report has to be of the present revision, because a change of model, which drops the
    calibration, changes the revision: what the former model counted must not come back (F159).
    """
    prompt = counted_prompt(report)
    if prompt is None or report.view_tokens is None or managed_by(session, settings):
        return None
    if session.calibration is None and report.revision != session.revision:
        return None
    former = Calibration.of(session.calibration)
    learned = former.updated(report.view_tokens, prompt, window=session_window(session))
    return None if learned == former else learned

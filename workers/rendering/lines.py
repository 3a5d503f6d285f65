"""The constant texts that a view may hold and no row does.

They are constants so that the same rows always give the same prompt, byte for byte.
"""

from __future__ import annotations

STUB_RESULT = "[No result of this call is on record. It may or may not have taken effect.]"
"""Stands in for the result of a call that was never answered. It claims neither success nor
failure: the action may have happened (F043)."""

OPENING_LINE = "(The conversation continues below.)"
"""A user message for a view that has none, or that must start with one and does not."""

BRIDGE_LINE = "Noted."
"""An assistant message between two user-role messages that must neither touch nor be joined. It
is short and says nothing, so that a model that copies it does no harm (F099)."""

_UNSHOWN = "[A part of type {} is not shown here.]"


def unshown(part_type: str) -> str:
    """The note in place of a content part that the dialect cannot carry."""
    return _UNSHOWN.format(part_type[:40])

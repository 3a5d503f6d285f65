"""A summariser that takes no time, so that what is left is ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count

from workers.summariser.contract import Reply, SummaryRequest
from workers.summariser.headings import Section
from workers.summariser.scripts import Script, user_script

_KNOWN = """
- The customers of this desk hold bookings for two passengers each, one of them a gold member.
- Payment went through with a certificate and a credit card; fares are free to change.
- Each request named one booking by its number, and the desk looked it up before it changed it.
- Refunds are possible until a day before departure; nobody has asked for one so far.
- Confirmation went out by mail. No booking is left half changed, and none was cancelled."""

_KNOWN_IN_CHINESE = """
- 来这里的人在北京找景点、餐馆和酒店，每次都说明人均消费和评分的要求。
- 已经推荐的地方都给出了地址、电话和营业时间，周边的酒店也一并查过。
- 没有任何预订只改到一半，也没有取消任何一个；付款方式和退款规则都已说明。
- 地铁和出租车的路线查过一次，门票价格以当天公布的为准。"""
_CHINESE = re.compile("[\u4e00-\u9fff]")


class InstantSummariser:
    """Answers at once in the language of what is summarised, never twice with the same text and
    in a language always with the same number of characters.

    Safe to call from many threads.
    """

    def __init__(self, *, input_chars: int = 160_000, first: int = 1) -> None:
        self._input_chars = input_chars
        self._numbers = count(first)

    @property
    def model(self) -> str:
        return "instant"

    @property
    def fingerprint(self) -> int:
        return 1

    def room(self, summary_tokens: int) -> int:
        return self._input_chars

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        number = next(self._numbers)
        state = f"State of the desk, version {number:09d}:{_KNOWN}"
        if _is_chinese(request):
            state = f"第 {number:09d} 版：{_KNOWN_IN_CHINESE}"
        if request.task.in_sections:
            headings = "\n\n".join(f"## {section}\nas before" for section in Section)
            state = f"{headings}\n{state}"
        return Reply(state, self.model)

    def close(self) -> None:
        """Nothing is open."""


def _is_chinese(request: SummaryRequest) -> bool:
    """Return whether to answer in Chinese: as the summary before, and the first one as the user
    writes."""
    if request.previous:
        return _CHINESE.search(request.previous) is not None
    return user_script(request) is Script.HAN

"""Charts as SVG text: lines and bars, without a script or anything from elsewhere.

Colours are names of CSS variables that the page defines, for light and dark screens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 132, 16, 34
_MOST_POINTS = 400
_MARKS = 5
_HALF = 460
"""Width of a chart that shares a line with another."""
_BROADEST = 56.0
_NAME_CHARACTER = 7.0
"""Room that a character of a column's name takes."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its name, its colour (a CSS variable), values by x; `dashed` for what is not real."""

    name: str
    colour: str
    values: Sequence[tuple[float, float]]
    dashed: bool = False
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A horizontal bar: its name, its length, and that in words; below 0 it points to the left."""

    name: str
    value: float
    text: str


def line_chart(
    lines: Sequence[Line],
    *,
    title: str,
    x_name: str,
    write: Callable[[float], str],
    limit: tuple[float, str] | None = None,
    mark: tuple[float, str] | None = None,
) -> str:
    """Draw lines over a common x axis, each named at its end.

    `limit` is a level with a name, `mark` a place on the x axis; `write` turns values of the y axis
    into text.
    """
    lines = [line for line in lines if line.values]
    if not lines:
        return ""
    xs = [x for line in lines for x, _ in line.values]
    ys = [y for line in lines for _, y in line.values] + ([limit[0]] if limit else [])
    scale = _Scale(min(xs), max(xs), min(0.0, *ys), max(ys))
    parts = [_open(WIDTH, HEIGHT, title), *_grid(scale, write, x_name)]
    if limit is not None:
        y = scale.y(limit[0])
        parts.append(
            f'<line class="limit" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="limit-name" x="{_LEFT + 6}" y="{y - 5:.1f}">{escape(limit[1])}</text>'
        )
    if mark is not None:
        x = scale.x(mark[0])
        parts.append(
            f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>'
            f'<text class="mark-name" x="{x + 5:.1f}" y="{_TOP + 10}">{escape(mark[1])}</text>'
        )
    parts += [_path(line, scale, write) for line in lines]
    parts += _names(lines, scale)
    return "".join([*parts, "</svg>"])


def bar_chart(bars: Sequence[Bar], *, title: str, colour: str, below: str) -> str:
    """Draw horizontal bars with names and figures; `below` is the colour of those under 0."""
    if not bars:
        return ""
    row, left, right = 24, 210, 110
    height = row * len(bars) + 12
    least, most = min(0.0, *(bar.value for bar in bars)), max(0.0, *(bar.value for bar in bars))
    unit = (WIDTH - left - right) / ((most - least) or 1.0)
    zero = left - least * unit
    parts = [_open(WIDTH, height, title)]
    for place, bar in enumerate(bars):
        y = 6 + row * place
        start, length = zero + min(0.0, bar.value) * unit, abs(bar.value) * unit
        name = bar.name if len(bar.name) <= 32 else f"{bar.name[:30]}…"
        end = zero + max(0.0, bar.value) * unit
        parts.append(
            f"<g><title>{escape(bar.name)}: {escape(bar.text)}</title>"
            f'<text class="bar-name" x="{left - 8}" y="{y + 14}" text-anchor="end">'
            f"{escape(name)}</text>"
            f'<rect x="{start:.1f}" y="{y + 2}" width="{max(length, 1):.1f}" height="{row - 7}" '
            f'rx="3" fill="var({below if bar.value < 0 else colour})"/>'
            f'<text class="bar-text" x="{end + 6:.1f}" y="{y + 14}">{escape(bar.text)}</text></g>'
        )
    return "".join([*parts, "</svg>"])


def column_chart(
    columns: Sequence[tuple[str, float]], *, title: str, colour: str, write: Callable[[float], str]
) -> str:
    """Draw columns side by side, with figures above and, as far as they fit, names below."""
    if not any(value for _, value in columns):
        return ""
    width, height, bottom, top = _HALF, 220, 30, 22
    most = max(value for _, value in columns)
    step = (width - 20) / len(columns)
    broad = min(0.76 * step, _BROADEST)
    named_every = math.ceil(_NAME_CHARACTER * max(len(name) for name, _ in columns) / step)
    parts = [_open(width, height, title)]
    for place, (name, value) in enumerate(columns):
        x, size = 10 + step * place, (height - bottom - top) * value / most
        y = height - bottom - size
        shown = f'<text class="bar-text" text-anchor="middle" x="{x + step / 2:.1f}"'
        parts.append(
            f"<g><title>{escape(name)}: {escape(write(value))}</title>"
            f'<rect x="{x + (step - broad) / 2:.1f}" y="{y:.1f}" width="{broad:.1f}" '
            f'height="{max(size, 0):.1f}" rx="3" fill="var({colour})"/>'
            + (f'{shown} y="{y - 6:.1f}">{escape(write(value))}</text>' if value else "")
            + (
                f'<text class="tick" text-anchor="middle" x="{x + step / 2:.1f}" '
                f'y="{height - 10}">{escape(name)}</text>'
                if (len(columns) - 1 - place) % named_every == 0
                else ""
            )
            + "</g>"
        )
    return "".join([*parts, "</svg>"])


def spark(values: Sequence[float], *, colour: str, most: float, title: str) -> str:
    """Draw a small line without axes; the dotted line is at 1."""
    width, height = 180, 44
    if len(values) < 2 or most <= 0:
        return ""
    thinned = _thin([(float(i), value) for i, value in enumerate(values)], 90)
    last = thinned[-1][0] or 1.0
    points = " ".join(
        f"{2 + (width - 4) * x / last:.1f},{height - 3 - (height - 6) * min(y, most) / most:.1f}"
        for x, y in thinned
    )
    level = height - 3 - (height - 6) / most
    return (
        f"{_open(width, height, title)}"
        f'<line class="limit" x1="2" x2="{width - 2}" y1="{level:.1f}" y2="{level:.1f}"/>'
        f'<polyline fill="none" stroke="var({colour})" stroke-width="1.6" points="{points}"/></svg>'
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    x_least: float
    x_most: float
    y_least: float
    y_most: float

    def x(self, value: float) -> float:
        span = (self.x_most - self.x_least) or 1.0
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (value - self.x_least) / span

    def y(self, value: float) -> float:
        span = (self.y_most - self.y_least) * 1.06 or 1.0
        inner = HEIGHT - _TOP - _BOTTOM
        return _TOP + inner - inner * (value - self.y_least) / span


def _open(width: int, height: int, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>"
    )


def _grid(scale: _Scale, write: Callable[[float], str], x_name: str) -> list[str]:
    parts = []
    for value in _ticks(scale.y_least, scale.y_most):
        y = scale.y(value)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{escape(write(value))}</text>"
        )
    for value in _ticks(scale.x_least, scale.x_most):
        parts.append(
            f'<text class="tick" x="{scale.x(value):.1f}" y="{HEIGHT - 16}" text-anchor="middle">'
            f"{value:,.0f}</text>"
        )
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(
        f'<text class="axis" x="{middle:.1f}" y="{HEIGHT - 2}" text-anchor="middle">'
        f"{escape(x_name)}</text>"
    )
    return parts


def _path(line: Line, scale: _Scale, write: Callable[[float], str]) -> str:
    values = _thin(line.values, _MOST_POINTS)
    points = [(scale.x(x), scale.y(y)) for x, y in values]
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if line.dashed else ""
    area = ""
    if line.filled:
        base = scale.y(max(0.0, scale.y_least))
        area = (
            f'<polygon fill="var({line.colour})" opacity="0.12" points="{points[0][0]:.1f},'
            f'{base:.1f} {drawn} {points[-1][0]:.1f},{base:.1f}"/>'
        )
    dots = "".join(
        f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="5" fill="var({line.colour})">'
        f"<title>{escape(line.name)}, {value[0]:,.0f}: {escape(write(value[1]))}</title></circle>"
        for (x, y), value in zip(points, values, strict=True)
    )
    return (
        f'{area}<polyline fill="none" stroke="var({line.colour})" stroke-width="2" '
        f'stroke-linejoin="round"{dash} points="{drawn}"/>{dots}'
    )


def _names(lines: Sequence[Line], scale: _Scale) -> list[str]:
    """Write the names at the ends of the lines, moved apart where they would overlap."""
    ends = [(scale.y(line.values[-1][1]), line) for line in lines]
    parts, lowest = [], 0.0
    for y, line in sorted(ends, key=lambda end: end[0]):
        at = max(y + 4, lowest + 14)
        lowest = at
        parts.append(
            f'<text class="name" x="{WIDTH - _RIGHT + 8}" y="{at:.1f}" fill="var({line.colour})">'
            f"{escape(line.name)}</text>"
        )
    return parts


def _thin(values: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    if len(values) <= most:
        return list(values)
    return [values[i * (len(values) - 1) // (most - 1)] for i in range(most)]


def _ticks(least: float, most: float) -> list[float]:
    """Return about five round values between two."""
    span = most - least
    if span <= 0:
        return [least]
    rough = span / _MARKS
    power = 10 ** math.floor(math.log10(rough))
    step = next(unit * power for unit in (1, 2, 2.5, 5, 10) if unit * power >= rough)
    first = math.ceil(least / step)
    return [step * n for n in range(first, math.floor(most / step) + 1)]

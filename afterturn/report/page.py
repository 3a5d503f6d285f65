"""A report as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from afterturn.report.charts import Bar, Line, bar_chart, column_chart, line_chart, spark
from afterturn.report.figures import (
    SessionReport,
    Sums,
    add_up,
    amount,
    break_even,
    occupancies,
    passes_by_day,
    percent,
    short,
)
from afterturn.words import moment, number

BEST = 16
"""Sessions that the page shows as bars, and as small lines."""

_DAYS = 14

_STYLE = """
:root{--ink:#1c2733;--soft:#5b6876;--line:#dfe5ea;--page:#f6f8f9;--card:#fff;
--with:#0f766e;--inline:#b45309;--whole:#94a3b8;--limit:#b91c1c;--loss:#b91c1c}
@media(prefers-color-scheme:dark){:root{--ink:#e6ebf0;--soft:#9aa7b4;--line:#2b3641;
--page:#11181f;--card:#18212a;--with:#2dd4bf;--inline:#f59e0b;--whole:#64748b;--limit:#f87171;
--loss:#f87171}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1120px;margin:0 auto;padding:36px 20px 60px}
h1{font-size:26px;margin:0 0 4px;letter-spacing:-.01em}h2{font-size:17px;margin:0 0 2px}
p{margin:0 0 12px;color:var(--soft)}.lead{font-size:16px;margin-bottom:22px;max-width:760px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(165px,1fr));gap:12px;
margin-bottom:20px}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:10px}
.tile{padding:14px 16px}.tile b{display:block;font-size:23px;line-height:1.3;font-weight:650;
white-space:nowrap;
font-variant-numeric:tabular-nums}.tile span{color:var(--soft);font-size:13px}
.tile.good b{color:var(--with)}.tile.bad b{color:var(--loss)}
.card{padding:18px 20px;margin-bottom:18px}.two{display:grid;gap:18px;
grid-template-columns:repeat(auto-fit,minmax(430px,1fr))}
svg{width:100%;height:auto;display:block;overflow:visible}
svg text{font-size:11.5px;fill:var(--soft);font-family:inherit}
svg .name{font-weight:600;fill:revert-layer}svg .bar-name,svg .bar-text{fill:var(--ink)}
.grid{stroke:var(--line);stroke-width:1}.limit{stroke:var(--limit);stroke-width:1.2;
stroke-dasharray:2 3}svg .limit-name{fill:var(--limit)}.mark{stroke:var(--ink);stroke-width:1;
stroke-dasharray:3 3}svg .mark-name{fill:var(--ink);font-weight:600}
.dot{opacity:0}.dot:hover{opacity:1}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:13.5px}
th{color:var(--soft);font-weight:600;text-align:right;padding:6px 10px;
border-bottom:1px solid var(--line);white-space:nowrap}
td{padding:6px 10px;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left;word-break:break-all}
tr:last-child td{border-bottom:0}td svg{width:180px;display:inline-block}
.scroll{overflow-x:auto}.loss{color:var(--loss)}footer{color:var(--soft);font-size:13px}
"""


def session_page(report: SessionReport, *, currency: str, made_at: int) -> str:
    """Return the page of one session."""
    course, session = report.course, report.session
    sums = add_up([report])
    name = session.title or session.id
    lead = (
        f"{escape(session.id)} · {number(session.turns)} turns, "
        f"{number(len(report.passes))} attempts of passes; threshold {number(course.threshold)} "
        f"tokens, {percent(report.occupancy)} full now."
    )
    even = report.break_even
    cards = [
        _card(
            "How full the conversation was",
            "Live tokens after each turn, as a share of the threshold. Inline is the same "
            "conversation in an agent that summarises in its turn when the threshold is reached.",
            _occupancy_chart(report),
        ),
        _card(
            "What it cost so far, and when it paid",
            "All tokens that models were sent, and those that summarising read and wrote, added up "
            "over the turns. The summary that is sent with each request is in it.",
            _cost_chart(report, currency),
        ),
        _card("In figures", "", _both_sides(sums, report, currency)),
    ]
    tiles = _tiles(sums, currency, break_even(even))
    return _page(name, lead, tiles, cards, made_at=made_at)


def overall_page(
    reports: Sequence[SessionReport], *, owner: str | None, currency: str, made_at: int
) -> str:
    """Return the page of all sessions."""
    sums = add_up(reports)
    owners = "all owners" if owner is None else owner
    lead = (
        f"Sessions of {escape(owners)} that had a pass: {number(sums.sessions)}, with "
        f"{number(sums.requests)} requests. Saved is net of all that summarising took, against "
        "agents that summarise inline at the threshold."
    )
    best = sorted(reports, key=lambda one: -one.tokens_saved)[:BEST]
    bars = [
        Bar(one.session.title or one.session.id, one.tokens_saved, short(one.tokens_saved))
        for one in best
    ]
    cards = [
        _card(
            "Tokens saved, net",
            "The sessions that saved most." if len(bars) > 1 else "",
            bar_chart(bars, title="Tokens saved by session", colour="--with", below="--loss"),
        ),
        '<div class="two">'
        + _card(
            "How full sessions are now",
            "Sessions by live tokens in % of their threshold.",
            column_chart(
                [(name.removesuffix(" %"), float(many)) for name, many in occupancies(reports)],
                title="Sessions by occupancy",
                colour="--with",
                write=short,
            ),
        )
        + _card(
            "Passes by day",
            "Passes that changed a view, the last days that had any (UTC).",
            column_chart(
                passes_by_day(reports, most=_DAYS),
                title="Passes by day",
                colour="--inline",
                write=short,
            ),
        )
        + "</div>",
        _card(
            "Session by session",
            "The line is occupancy over the turns; dotted is the threshold.",
            _sessions_table(best, currency),
        ),
    ]
    paid = f"{number(sums.broke_even)} of {number(sums.sessions)}"
    tiles = _tiles(sums, currency, paid)
    return _page("What compaction saved", lead, tiles, cards, made_at=made_at)


def _occupancy_chart(report: SessionReport) -> str:
    course = report.course
    of = course.threshold or 1
    points = course.points
    top = max([1.4, *(point.inline / of for point in points)])
    return line_chart(
        [
            Line(
                "never compacted",
                "--whole",
                [(p.turn, p.whole / of) for p in points if p.whole / of <= top],
                dashed=True,
            ),
            Line("inline", "--inline", [(p.turn, p.inline / of) for p in points]),
            Line(
                "with afterturn", "--with", [(p.turn, p.managed / of) for p in points], filled=True
            ),
        ],
        title="Occupancy over turns",
        x_name="turn",
        write=percent,
        limit=(1.0, "threshold"),
    )


def _cost_chart(report: SessionReport, currency: str) -> str:
    points, prices = report.course.points, report.prices
    if prices.known:
        with_ = [(p.turn, p.with_.money(prices) or 0.0) for p in points]
        without = [(p.turn, p.without.money(prices) or 0.0) for p in points]
    else:
        with_ = [(p.turn, float(p.with_.tokens)) for p in points]
        without = [(p.turn, float(p.without.tokens)) for p in points]
    even = report.break_even
    at = next((float(p.turn) for p in points if even is not None and p.passes >= even), None)
    mark = None if at is None or not even else (at, f"paid for itself: pass {even}")
    return line_chart(
        [
            Line("inline", "--inline", without),
            Line("with afterturn", "--with", with_, filled=True),
        ],
        title="Cost over turns",
        x_name="turn",
        write=(lambda value: amount(value, currency)) if prices.known else short,
        mark=mark,
    )


def _both_sides(sums: Sums, report: SessionReport, currency: str) -> str:
    course, prices = report.course, report.prices
    rows = [
        ("tokens sent with requests", number(sums.sent_without), number(sums.sent_with)),
        (
            "of them cached by the provider",
            number(course.without.cached),
            number(course.with_.cached),
        ),
        (
            "tokens that summarising took",
            number(sums.summarising_without),
            number(sums.summarising_with),
        ),
        ("batch passes", number(sums.inline_passes), number(sums.batch_passes)),
        ("passes in all", number(sums.inline_passes), number(sums.passes)),
        (
            "money",
            amount(course.without.money(prices), currency),
            amount(course.with_.money(prices), currency),
        ),
    ]
    body = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(one)}</td><td>{escape(two)}</td></tr>"
        for name, one, two in rows
    )
    return f"<table><tr><th></th><th>inline</th><th>with afterturn</th></tr>{body}</table>"


def _sessions_table(reports: Sequence[SessionReport], currency: str) -> str:
    heads = "<th>session</th><th></th>" + "".join(
        f"<th>{name}</th>"
        for name in ("turns", "passes", "batch avoided", "full", "saved", "money", "paid")
    )
    rows = "".join(_session_row(one, currency) for one in reports)
    return f'<div class="scroll"><table><tr>{heads}</tr>{rows}</table></div>'


def _session_row(one: SessionReport, currency: str) -> str:
    course = one.course
    of = course.threshold or 1
    line = spark(
        [point.managed / of for point in course.points],
        colour="--with",
        most=max([1.1, *(point.managed / of for point in course.points)]),
        title="Occupancy over turns",
    )
    cells = (
        number(one.session.turns),
        number(course.passes),
        number(course.inline_passes - course.batch_passes),
        percent(one.occupancy),
        short(one.tokens_saved),
        amount(one.money_saved, currency),
        break_even(one.break_even),
    )
    shown = "".join(
        f'<td class="loss">{escape(text)}</td>'
        if text.startswith("-")
        else f"<td>{escape(text)}</td>"
        for text in cells
    )
    name = escape(one.session.title or one.session.id)
    return f"<tr><td>{name}</td><td>{line}</td>{shown}</tr>"


def _tiles(sums: Sums, currency: str, paid: str) -> str:
    money = amount(sums.money_saved, currency)
    spent = f"{short(sums.summarising_with)} spent on summaries"
    share = sums.tokens_saved / max(1, sums.sent_without + sums.summarising_without)
    tiles = [
        (short(sums.tokens_saved), f"tokens saved, net ({percent(share)})", sums.tokens_saved),
        (money, "saved in money" if sums.money_saved is not None else "in money: no prices set", 0),
        (short(sums.sent_with), f"tokens sent; {short(sums.sent_without)} inline", 0),
        (number(sums.passes), f"passes; {spent}", 0),
        (number(sums.passes_avoided), "batch passes avoided", sums.passes_avoided),
        (paid, "paid for itself", 0),
    ]
    return "".join(
        f'<div class="tile{" good" if sign > 0 else " bad" if sign < 0 else ""}">'
        f"<b>{escape(figure)}</b><span>{escape(words)}</span></div>"
        for figure, words, sign in tiles
    )


def _card(title: str, text: str, inner: str) -> str:
    shown = inner or "<p>Nothing to show yet.</p>"
    lead = f"<p>{escape(text)}</p>" if text else ""
    return f'<section class="card"><h2>{escape(title)}</h2>{lead}{shown}</section>'


def _page(heading: str, lead: str, tiles: str, cards: Sequence[str], *, made_at: int) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(heading)} · afterturn</title><style>{_STYLE}</style></head><body><main>"
        f'<h1>{escape(heading)}</h1><p class="lead">{lead}</p>'
        f'<div class="tiles">{tiles}</div>{"".join(cards)}'
        f"<footer>Made by afterturn, {escape(moment(made_at))}. Tokens are estimates, except those "
        "that models counted for summaries. Records of passes are kept for "
        "retention.attempts_days.</footer></main></body></html>\n"
    )

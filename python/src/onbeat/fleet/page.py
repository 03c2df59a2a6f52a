"""`onbeat fleet report`: all machines on one HTML page. No script, nothing from elsewhere; the picture of each machine is a line of its p99.9."""

import html
import io
import math
import os
import sys
import tempfile
from itertools import groupby
from pathlib import Path

import numpy as np

from .data_set import FleetError
from .questions import Answer, Fleet, time_ns

# Points of a machine's line: of more runs the largest of some is drawn, so that nothing that was late is left out.
MOST_POINTS = 30
WIDTH, HEIGHT = 150, 22
# Of the fleet's distribution.
BARS = 60
STYLE = """
:root{color-scheme:light dark;--text:#1d2733;--faint:#6b7683;--line:#d7dde3;--back:#fff;--mark:#0b62a4;--limit:#b3261e}
@media(prefers-color-scheme:dark){:root{--text:#e2e7ec;--faint:#98a3ae;--line:#333d47;--back:#14191f;--mark:#6db3e8;--limit:#f2877f}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--text);background:var(--back);margin:2rem auto;max-width:76rem;padding:0 1rem}
h1{font-size:1.5rem;margin:0 0 .3rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{margin:.3rem 0;max-width:60rem}
.faint,th{color:var(--faint);font-weight:400}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th{text-align:left}
td,th{padding:.1rem .7rem .1rem 0;border-bottom:1px solid var(--line);white-space:nowrap}
td.n,th.n{text-align:right}svg{display:block}polyline{fill:none;stroke:var(--mark);stroke-width:1.3}
circle,rect{fill:var(--mark)}line{stroke:var(--limit);stroke-width:1;stroke-dasharray:3 2}td.late{color:var(--limit)}
"""


class _Scale:
    """Logarithmic places of times, the same for all machines."""

    def __init__(self, low_ns: float, high_ns: float):
        self.low = math.log(max(1.0, low_ns))
        self.span = max(0.1, math.log(max(2.0, high_ns)) - self.low)

    def y(self, ns: float) -> float:
        place = (math.log(max(1.0, ns)) - self.low) / self.span
        return round(HEIGHT - 2 - (HEIGHT - 4) * min(1.0, max(0.0, place)), 1)


def _points(p999: list[int]) -> list[int]:
    if len(p999) <= MOST_POINTS:
        return p999
    return [int(part.max()) for part in np.array_split(np.array(p999), MOST_POINTS)]


def _line(p999: list[int], scale: _Scale, limit_ns: int | None) -> str:
    points = _points(p999)
    step = (WIDTH - 4) / max(1, len(points) - 1)
    text = " ".join(f"{2 + place * step:.0f},{scale.y(ns):g}" for place, ns in enumerate(points))
    drawn = f'<circle cx="2" cy="{scale.y(points[0]):g}" r="2"/>' if len(points) == 1 else f'<polyline points="{text}"/>'
    limit = f'<line x1="0" x2="{WIDTH}" y1="{scale.y(limit_ns):g}" y2="{scale.y(limit_ns):g}"/>' if limit_ns else ""
    return f'<svg width="{WIDTH}" height="{HEIGHT}">{limit}{drawn}</svg>'


def _machines(fleet: Fleet, query: str) -> list[dict]:
    machines = []
    for host, rows in groupby(fleet.data.rows(query), key=lambda row: row[0]):
        runs = list(rows)
        p999 = [row[2] for row in runs]
        mean = math.exp(sum(math.log(max(1, ns)) for ns in p999) / len(p999))
        machines.append({"host": host, "p999": p999, "mean_ns": mean, "max_ns": max(row[3] for row in runs), "last": runs[-1][4:8]})
    machines.sort(key=lambda one: (-one["mean_ns"], one["host"]))
    return machines


def _distribution(machines: list[dict], limit_ns: int | None) -> str:
    """How many machines have which p99.9."""
    values = np.log([one["mean_ns"] for one in machines])
    low, high = float(values.min()) - 0.05, float(values.max()) + 0.05
    if limit_ns:
        low, high = min(low, math.log(limit_ns) - 0.05), max(high, math.log(limit_ns) + 0.05)
    counts, _ = np.histogram(values, BARS, (low, high))
    width, height, most = 720, 110, max(1, int(counts.max()))
    bars = "".join(
        f'<rect x="{place * width / BARS:.0f}" y="{height - 20 - 85 * n / most:.1f}" width="{width / BARS - 1:.1f}" height="{85 * n / most:.1f}"/>'
        for place, n in enumerate(counts.tolist()) if n)
    limit = ""
    if limit_ns:
        x = (math.log(limit_ns) - low) / (high - low) * width
        limit = f'<line x1="{x:.0f}" x2="{x:.0f}" y1="0" y2="{height - 20}"/>'
    words = "".join(
        f'<text x="{share * width:.0f}" y="{height - 5}" font-size="12" fill="currentColor" text-anchor="{anchor}">{time_ns(math.exp(low + share * (high - low)))}</text>'
        for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")))
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="machines by p99.9">{bars}{limit}{words}</svg>'


def _row(machine: dict, scale: _Scale, limit_ns: int | None) -> str:
    late = ' class="n late"' if limit_ns and max(machine["p999"]) > limit_ns else ' class="n"'
    facts = "".join(f"<td>{html.escape(fact or '')}</td>" for fact in machine["last"])
    return (f"<tr><td>{html.escape(machine['host'])}</td><td>{_line(machine['p999'], scale, limit_ns)}</td><td{late}>{time_ns(machine['mean_ns'])}</td>"
            f'<td class="n">{time_ns(machine["max_ns"])}</td><td class="n">{len(machine["p999"])}</td>{facts}</tr>')


def _section(title: str, answer: Answer, said: list[str], most: int = 15) -> str:
    lines = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in answer.sentences if sentence not in said)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in answer.columns.values())
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in answer.shown[:most])
    more = f'<p class="faint">{len(answer.shown) - most:,} more rows: onbeat fleet {title.split(" ")[-1]}</p>' if len(answer.shown) > most else ""
    table = f'<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>' if rows else ""
    return f"<h2>{html.escape(answer.title[0].upper() + answer.title[1:])}</h2>{lines}{table}{more}"


def page(fleet: Fleet, limit_ns: int | None, about: dict) -> tuple[str, int, list[str]]:
    """The page as text, the number of its machines, and the queries behind it."""
    chosen = fleet._selection(about)
    query = chosen.query("report")
    machines = _machines(fleet, query)
    all_p999 = [ns for one in machines for ns in one["p999"]]
    scale = _Scale(min(all_p999), max([*all_p999, limit_ns or 0]))
    queries, sections, verdict = [query], [], ""
    about_all = fleet._about(chosen)
    if limit_ns:
        gate = fleet.gate(limit_ns, **about)
        queries += gate.queries
        verdict = f"<p><b>{html.escape(gate.sentences[0])}</b></p><p>{html.escape(gate.title[0].upper() + gate.title[1:])}.</p>"
    for question in (fleet.explain, fleet.drift):
        try:
            answer = question(**about)
        except FleetError as why:
            sections.append(f'<p class="faint">{html.escape(str(why))}</p>')
        else:
            queries += answer.queries
            sections.append(_section(question.__name__, answer, about_all))
    rows = "".join(_row(one, scale, limit_ns) for one in machines)
    head = ("<tr><th>machine</th><th>p99.9 of each run, in the order of time</th><th class=n>p99.9</th><th class=n>largest</th><th class=n>runs</th>"
            "<th>kernel</th><th>board</th><th>BIOS</th><th>image</th></tr>")
    left_out = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in about_all)
    body = (f"<h1>{len(machines):,} machines, {len(all_p999):,} runs</h1>{verdict}{left_out}{_distribution(machines, limit_ns)}"
            f'<p class="faint">machines by p99.9 (geometric mean of their runs){"; the line is the limit" if limit_ns else ""}</p>{"".join(sections)}'
            f"<h2>Machines, the longest tail first</h2><p class=\"faint\">All lines have one logarithmic scale, {time_ns(min(all_p999))} to {time_ns(max(all_p999))}.</p>"
            f'<div class="scroll"><table>{head}{rows}</table></div>')
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    text = (f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta http-equiv="Content-Security-Policy" '
            f'content="{policy}"><title>onbeat fleet</title><style>{STYLE}</style>{body}</html>\n')
    return text, len(machines), queries


def write(fleet: Fleet, output: str, limit_ns: int | None, about: dict) -> Answer:
    """Writes the page, whole or not at all; `-` is standard output."""
    text, machines, queries = page(fleet, limit_ns, about)
    if output == "-":
        # A page says that it is UTF-8, whatever the terminal has.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        print(text, end="")
        return Answer("", queries)
    to = Path(output)
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=to.parent, prefix=".tmp-", delete=False) as file:
            file.write(text)
        os.chmod(file.name, 0o644)
        os.replace(file.name, to)
    except OSError as why:
        raise FleetError(f"cannot write {to}: {why.strerror}; choose another place with --output") from why
    answer = Answer(f"report   {to}", queries)
    answer.sentences = [f"{machines:,} {'machine' if machines == 1 else 'machines'}, {len(text.encode()) / 1e6:.2f} MB"]
    return answer

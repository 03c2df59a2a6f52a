"""`python3 -m onbeat.fleet`: the questions of `onbeat fleet` on the command line."""

import argparse
import io
import json
import math
import re
import sys
import traceback
from collections.abc import Sequence

from .data_set import FleetError
from .questions import Answer, Fleet, printable

STATUS = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3, None: 0}
UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def time(text: str) -> int:
    """A time with its unit, in nanoseconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is not a valid time; write a number with ns, us, ms or s, such as 100us")
    return round(float(found[1]) * UNITS[found[2]])


def percent(text: str) -> float:
    """A share in percent."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0.0 < value <= 100.0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a valid share; write more than 0 to 100, such as 99.9")
    return value


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="onbeat fleet", description="Ask a data set of runs of many machines.", allow_abbrev=False)
    questions = top.add_subparsers(dest="question", required=True, metavar="QUESTION")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("fleet", metavar="DIR", help="directory of the data set")
    common.add_argument("--where", action="append", default=[], metavar="FACT=VALUE", help="count only runs with this fact; may be repeated")
    common.add_argument("--cell", metavar="TUNING/LOAD", help="cell to ask about [default: the one that most machines have]")
    common.add_argument("--series", metavar="NAME", help="main series of the runs, such as response_time [default: the one that most machines have]")
    common.add_argument("--since", metavar="DAY", help="first day, such as 2026-11-01, by UTC")
    common.add_argument("--until", metavar="DAY", help="last day")
    common.add_argument("--most", type=int, default=20, metavar="ROWS", help="rows to print [default: 20]")
    form = common.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print all rows as one JSON object")
    form.add_argument("--sql", action="store_true", help="print the SQL of the question, and ask nothing")

    def add(name: str, summary: str) -> argparse.ArgumentParser:
        return questions.add_parser(name, parents=[common], help=summary, description=summary, allow_abbrev=False)

    exact = {"action": "store_true", "help": "count samples in buckets instead of figures of runs"}
    add("worst", "List machines by their tail, the worst first").add_argument("--exact", **exact)
    gate = add("gate", "Determine the share of machines that hold a limit")
    gate.add_argument("--limit", type=time, required=True, dest="limit_ns", metavar="TIME", help="latency limit, such as 100us")
    gate.add_argument("--at", type=percent, default=99.9, metavar="PERCENT", help="releases of each run that must meet it [default: 99.9]")
    gate.add_argument("--share", type=percent, metavar="PERCENT", help="machines that must hold it, at 95 %% [default: all of these]")
    gate.add_argument("--exact", **exact)
    compare = add("compare", "Compare two groups of runs over the machines that have both")
    compare.add_argument("first", metavar="FACT=VALUE", help="the first group, such as kernel=6.1.0-rt")
    compare.add_argument("second", metavar="FACT=VALUE", help="the second group")
    compare.add_argument("--alike", action="append", default=[], metavar="FACT", help="leave out machines on which this changed too; may be repeated")
    add("explain", "Find facts and settings that separate machines with long tails from others")
    add("drift", "Find machines whose tail changed, and when")
    causes = add("causes", "Count causes of spikes by a fact or setting")
    causes.add_argument("--by", default="kernel", metavar="FACT", help="fact, setting or host to count by [default: kernel]")
    add("percentiles", "Print exact percentiles of all samples together, and by machine")
    report = add("report", "Write an HTML page of all machines")
    report.add_argument("-o", "--output", default="fleet.html", metavar="FILE", help="file to write; -: standard output [default: fleet.html]")
    report.add_argument("--limit", type=time, dest="limit_ns", metavar="TIME", help="latency limit to show")
    return top


def answer(options: argparse.Namespace) -> Answer:
    """Asks the question."""
    fleet = Fleet(options.fleet)
    about = {"where": options.where, "cell": options.cell, "since": options.since, "until": options.until, "series": options.series}
    match options.question:
        case "gate":
            return fleet.gate(options.limit_ns, options.at, options.share, options.exact, **about)
        case "compare":
            return fleet.compare(options.first, options.second, options.alike, **about)
        case "worst":
            return fleet.worst(options.exact, **about)
        case "causes":
            return fleet.causes(options.by, **about)
        case "report":
            from .page import page, write

            if options.sql:
                return Answer("", page(fleet, options.limit_ns, about)[2])
            if options.json and options.output == "-":
                raise FleetError("--json and -o - both write to standard output; name a file for the page")
            return write(fleet, options.output, options.limit_ns, about)
        case question:
            return getattr(fleet, question)(**about)


def _plain(value: object) -> object:
    """Numbers that JSON has no word for as null."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print(found: Answer, options: argparse.Namespace) -> None:
    if options.sql:
        print(";\n\n".join(found.queries) + ";")
    elif options.json:
        summary = {"schema": "onbeat.fleet/1", "question": options.question, "outcome": found.outcome, "sentences": found.sentences, "rows": found.rows}
        has_all_letters = (sys.stdout.encoding or "").lower().startswith("utf")
        print(json.dumps(_plain(summary), ensure_ascii=not has_all_letters))
    else:
        parts = [printable(found.title), found.table(max(0, options.most)), "\n".join(map(printable, found.sentences))]
        if any(parts):
            print("\n\n".join(part for part in parts if part))


def main(words: Sequence[str]) -> int:
    """Answers a question; returns the exit status."""
    options = parser().parse_args(words)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal of another encoding has no letter for each unit.
        sys.stdout.reconfigure(errors="replace")
    try:
        found = answer(options)
        _print(found, options)
        sys.stdout.flush()
        return 0 if options.sql else STATUS[found.outcome]
    except FleetError as why:
        print(f"error: {printable(str(why))}", file=sys.stderr)
    except BrokenPipeError:
        # The reader has what it wanted; the interpreter must not write the rest at its end.
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as why:
        print(f"error: cannot write the answer: {why.strerror}", file=sys.stderr)
    except UnicodeEncodeError:
        print("error: a path or a condition is not valid UTF-8; the engine reads no other names", file=sys.stderr)
    except Exception:
        # Of the interpreter's own it would be 1, a FAIL.
        traceback.print_exc()
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

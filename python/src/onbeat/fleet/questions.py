"""The questions: queries by the engine, statistics over machines, sentences."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from . import statistics
from .data_set import DataSet, FleetError, Selection, quoted

PERCENTILES = {50.0: "p50_ns", 90.0: "p90_ns", 99.0: "p99_ns", 99.9: "p999_ns", 99.99: "p9999_ns", 100.0: "max_ns"}
# What most runs are about.
MAIN_SERIES = "release_latency"
# Series without a sample of a release that was skipped: it was never answered or written, and so late for certain.
LATE_WHEN_SKIPPED = ("response_time", "write_interval", "read_write")
# Samples from which ten are beyond p99.9; with fewer the figure is marked.
SUPPORTED = 10_000
LEVEL = 0.95
_CONTROL = dict.fromkeys([*range(32), *range(127, 160)], "?")


def time_ns(ns: float) -> str:
    """A time as people read it, of three digits."""
    for unit, size in (("ns", 1.0), ("µs", 1e3), ("ms", 1e6)):
        if ns < 999.5 * size:
            break
    else:
        unit, size = "s", 1e9
    value = ns / size
    digits = 0 if unit == "ns" or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"


def _typed_ns(ns: int) -> str:
    """A time that somebody typed, of all its digits."""
    unit, size = next(((unit, size) for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)) if ns >= size), ("ns", 1.0))
    return f"{ns / size:.12g} {unit}"


def printable(text: str) -> str:
    """A text on one line, without commands to a terminal: names of threads are chosen by whoever runs them."""
    return text.translate(_CONTROL)


def _ln(ppm: float) -> str:
    """A mean of logarithms in millionths as a time."""
    return time_ns(math.exp(ppm / 1e6))


def _ratio(ppm: float) -> str:
    return f"× {math.exp(ppm / 1e6):.3f}"


def _p(p: float) -> str:
    return "below 1e-16" if p < 1e-16 else f"{p:.2g}"


def _count(number: int, one: str, several: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"


@dataclass
class Answer:
    """What a question found. `columns` of `rows` are shown; `sentences` say what it means; `outcome` is PASS, FAIL, INCONCLUSIVE or None."""

    title: str
    queries: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    rows: list[dict] = field(default_factory=list)
    shown: list[list[str]] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    outcome: str | None = None

    def table(self, most: int | None = None) -> str:
        """The rows as a table of text."""
        lines = [[printable(cell) for cell in line] for line in (list(self.columns.values()), *self.shown[:most])]
        if len(lines) == 1:
            return ""
        widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
        # Words to the left, numbers to the right.
        is_number = [all(line[place][:1] in "0123456789-×~– " for line in lines[1:]) for place in range(len(widths))]
        text = []
        for line in lines:
            cells = [cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(line, widths, is_number, strict=True)]
            text.append("  ".join(cells).rstrip())
        if most is not None and len(self.shown) > most:
            text.append(f"... and {len(self.shown) - most:,} more; --most {len(self.shown)} shows all")
        return "\n".join(text)


class Fleet:
    """A data set, and the questions that it answers. Conditions (`where`) are texts FACT=VALUE, a cell is TUNING/LOAD; the default is the
    cell that most machines have, and of it the `series`."""

    def __init__(self, path):
        self.data = DataSet(path)

    def _selection(self, options: dict) -> Selection:
        return Selection(self.data, **options)

    def _about(self, chosen: Selection) -> list[str]:
        """What the answer is about, and what it leaves out."""
        types = len({(one["tuning"], one["load"]) for one in chosen.types})
        others = "" if types == 1 else f"; one of {types} cells, another one by --cell"
        series = "" if chosen.series == MAIN_SERIES else f", {chosen.series}"
        about = [f"cell {chosen.tuning}/{chosen.load}{series}{others}"]
        for one in chosen.others():
            runs = f"{_count(one['runs'], 'run')} of {_count(one['hosts'], 'machine')}"
            about.append(f"not counted: {runs} with another series; --series {one['series']}")
        if unknown := chosen.unknown():
            about.append(f"{_count(unknown, 'run')} of an unknown machine, each taken for a machine of its own; onbeat fleet add --host NAME names it")
        for name, values in chosen.loops().items():
            if len(values) > 1:
                listed = ", ".join(f"{value} in {_count(runs, 'run')}" for value, runs in values[:4]) + (", ..." if len(values) > 4 else "")
                about.append(f"unlike loops are counted together: {name} {listed}; --where \"{name}={values[0][0]}\"")
        about += [f"not counted: {_count(one['cells'], 'cell')} of {_count(one['hosts'], 'machine')}: {one['why']}" for one in chosen.left_out()]
        return about

    def worst(self, exact: bool = False, **options) -> Answer:
        """Machines by their tail: the mean of p99.9 over their runs with an interval, and the largest lateness."""
        chosen = self._selection(options)
        if exact:
            return self._worst_exact(chosen)
        query = chosen.query("worst")
        answer = Answer("machines by their tail, the worst first", [query])
        answer.columns = {"host": "machine", "runs": "runs", "releases": "releases", "p999": "p99.9", "interval": "95 % interval", "max": "largest"}
        rows = self.data.dictionaries(query)
        for row in rows:
            mean, low, high = statistics.mean_interval(row["runs"], row["s"], row["q"], LEVEL)
            row |= {"mean_ppm": mean, "low_ppm": low, "high_ppm": high}
        rows.sort(key=lambda row: (-row["mean_ppm"], row["host"]))
        for row in rows:
            mark = "" if row["releases"] >= SUPPORTED * row["runs"] else "~"
            interval = "–" if math.isnan(row["low_ppm"]) else f"{_ln(row['low_ppm'])} to {_ln(row['high_ppm'])}"
            line = [row["host"], f"{row['runs']:,}", f"{row['releases']:,}", mark + _ln(row["mean_ppm"]), interval, time_ns(row["max_ns"])]
            answer.shown.append(line)
        answer.rows = rows
        answer.sentences = self._about(chosen)
        answer.sentences.append("p99.9: geometric mean over the runs of a machine; its interval needs three runs")
        if any(line[3].startswith("~") for line in answer.shown):
            answer.sentences.append("~ fewer than 10 samples of a run are beyond its p99.9")
        return answer

    def _worst_exact(self, chosen: Selection) -> Answer:
        answer = self._percentiles(chosen)
        answer.title = "machines by the exact p99.9 of all their samples, the worst first"
        order = sorted(range(len(answer.rows)), key=lambda place: (-answer.rows[place]["p999_ns"], answer.rows[place]["host"]))
        answer.rows = [answer.rows[place] for place in order]
        answer.shown = [answer.shown[place] for place in order]
        return answer

    def _percentiles(self, chosen: Selection) -> Answer:
        query = chosen.query("percentiles")
        answer = Answer("exact percentiles of all samples, by machine", [query])
        names = {"p50_ns": "p50", "p99_ns": "p99", "p999_ns": "p99.9", "p9999_ns": "p99.99", "max_ns": "largest bucket"}
        answer.columns = {"host": "machine", "samples": "samples"} | names
        answer.rows = self.data.dictionaries(query)
        answer.shown = [[row["host"], f"{row['samples']:,}", *(time_ns(row[name]) for name in names)] for row in answer.rows]
        answer.sentences = self._about(chosen)
        return answer

    def percentiles(self, **options) -> Answer:
        """Exact percentiles by machine, and of all samples of all machines together."""
        chosen = self._selection(options)
        answer = self._percentiles(chosen)
        together = chosen.query("percentiles_together")
        answer.queries.append(together)
        row = self.data.dictionaries(together)[0]
        if row["samples"]:
            answer.rows.insert(0, {"host": "all together", **row})
            names = ("p50_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns")
            answer.shown.insert(0, ["all together", f"{row['samples']:,}", *(time_ns(row[name]) for name in names)])
        return answer

    def gate(self, limit_ns: int, at: float = 99.9, share: float | None = None, exact: bool = False, **options) -> Answer:
        """Which share of the machines holds a limit: a machine does when in each of its runs at least `at` percent of the releases do."""
        if not 0.0 < at <= 100.0:
            raise FleetError(f"{at:g} % is not a share of releases; write more than 0 to 100")
        if share is not None and not 0.0 < share <= 100.0:
            raise FleetError(f"{share:g} % is not a share of machines; write more than 0 to 100")
        chosen = self._selection(options)
        if at in PERCENTILES and not exact and chosen.series not in LATE_WHEN_SKIPPED:
            rows, query = self._held_by_cells(chosen, limit_ns, PERCENTILES[at])
            figure, title = "worst_ns", f"worst p{at:g}"
        else:
            rows, query = self._held_by_buckets(chosen, limit_ns, at, exact)
            figure, title = "max_ns", "largest bucket"
        answer = Answer(f"machines of which at least {at:g} % of the releases of each run are within {_typed_ns(limit_ns)}", [query])
        answer.columns = {"host": "machine", "runs": "runs", "held": "runs within", "worst": title}
        rows.sort(key=lambda row: (row["held"] == row["runs"], -row[figure], row["host"]))
        answer.rows = rows
        failing = [row for row in rows if row["held"] < row["runs"]]
        answer.shown = [[row["host"], str(row["runs"]), str(row["held"]), time_ns(row[figure])] for row in failing]
        held = len(rows) - len(failing)
        lower, upper = statistics.share_bounds(held, len(rows), LEVEL)
        hold = "holds" if held == 1 or len(rows) == 1 else "hold"
        sentence = f"{held:,} of {_count(len(rows), 'machine')} {hold} the limit; of machines like these at least {lower:.1%} do, at 95 %"
        if share is None:
            answer.outcome = "PASS" if not failing else "FAIL"
        else:
            wanted = share / 100.0
            answer.outcome = "PASS" if lower >= wanted else "FAIL" if upper < wanted else "INCONCLUSIVE"
            sentence += f" and at most {upper:.1%} ({share:g} % wanted)"
        answer.sentences = [f"{answer.outcome}: {sentence}", *self._about(chosen)]
        if chosen.series in LATE_WHEN_SKIPPED:
            answer.sentences.append("skipped releases count as late, as in the verdict of a run")
        short = sum(row["releases"] * (100.0 - at) < 1_000.0 * row["runs"] for row in rows)
        if short and at < 100.0:
            answer.sentences.append(f"on {_count(short, 'machine')} fewer than 10 samples of a run are beyond its p{at:g}: its runs are short for this share")
        return answer

    def _held_by_cells(self, chosen: Selection, limit_ns: int, percentile: str) -> tuple[list[dict], str]:
        query = chosen.query("gate", limit_ns=str(limit_ns), percentile=percentile)
        return self.data.dictionaries(query), query

    def _held_by_buckets(self, chosen: Selection, limit_ns: int, at: float, exact: bool) -> tuple[list[dict], str]:
        counted = (chosen.series, "skipped_latency") if chosen.series in LATE_WHEN_SKIPPED else (chosen.series,)
        most_ns = -1 if exact or at < 100.0 else limit_ns
        query = chosen.query("gate_exact", limit_ns=str(limit_ns), most_ns=str(most_ns), counted=", ".join(map(quoted, counted)))
        hosts: dict[str, dict] = {}
        # As it was typed: 100.0 - 99.9 is less than 0.1.
        allowed = 100 - Fraction(str(at))
        for host, _, samples, beyond, max_ns in self.data.rows(query):
            row = hosts.setdefault(host, {"host": host, "runs": 0, "held": 0, "max_ns": 0, "releases": 0})
            row["runs"] += 1
            row["held"] += beyond * 100 <= samples * allowed
            row["max_ns"] = max(row["max_ns"], max_ns)
            row["releases"] += samples
        return list(hosts.values()), query

    def compare(self, first: str, second: str, alike: Sequence[str] = (), **options) -> Answer:
        """Two groups of runs, each by a condition FACT=VALUE, over the machines that have both; of those only the ones on which the
        facts `alike` have one value in both groups."""
        chosen = self._selection(options)
        places = {"first": chosen.group(first), "second": chosen.group(second)}
        queries = [chosen.query("compare", **places), chosen.query("compare_facts", **places)]
        names = [chosen.fact(name) for name in alike]
        asked = [condition.partition("=")[0].lower() for condition in (first, second)]
        unlike: dict[str, set[str]] = {}
        for name, host in self.data.rows(queries[1]):
            if name.lower() not in asked:
                unlike.setdefault(name, set()).add(host)
        left_out = set().union(*(unlike.pop(name, set()) for name in names)) if names else set()
        rows = [row for row in self.data.dictionaries(queries[0]) if row["host"] not in left_out]
        answer = Answer(f"{second} against {first}, machine by machine", queries, rows=rows)
        answer.columns = {"host": "machine", "a": "runs", "b": "runs", "ratio": "p99.9", "max_a": "largest", "max_b": "largest"}
        rows.sort(key=lambda row: (-row["d_ppm"], row["host"]))
        for row in rows:
            runs = [str(row["runs_first"]), str(row["runs_second"])]
            answer.shown.append([row["host"], *runs, _ratio(row["d_ppm"]), time_ns(row["max_first_ns"]), time_ns(row["max_second_ns"])])
        answer.sentences = self._compared([row["d_ppm"] for row in rows], first, second)
        if both := chosen.in_all(*places.values()):
            answer.sentences.append(f"{_count(both, 'run')} in both groups, which makes these more alike: name two values of one fact")
        kept = {row["host"] for row in rows}
        differ = {name: len(hosts & kept) for name, hosts in unlike.items() if hosts & kept}
        if differ:
            listed = ", ".join(f"{name} on {n:,}" for name, n in sorted(differ.items(), key=lambda one: -one[1]))
            answer.sentences.append(f"not alike in both groups: {listed}; --alike \"{max(differ, key=differ.get)}\" leaves those machines out")
        answer.sentences += self._about(chosen)
        return answer

    @staticmethod
    def _compared(differences: Sequence[float], first: str, second: str) -> list[str]:
        n = len(differences)
        if n < 3:
            return [f"undecided: {_count(n, 'machine')} ran both {first} and {second}; an interval needs three"]
        mean = sum(differences) / n
        spread = math.sqrt(sum((one - mean) ** 2 for one in differences) / (n - 1))
        half = statistics.t_quantile((1 + LEVEL) / 2, n - 1) * spread / math.sqrt(n)
        worse = sum(one > 0 for one in differences)
        word = "undecided" if mean - half <= 0.0 <= mean + half else "longer" if mean > 0 else "shorter"
        p = statistics.signed_rank(differences)
        ranks = "" if math.isnan(p) else f"; signed ranks p {_p(p)}"
        interval = f"{_ratio(mean)} ({math.exp((mean - half) / 1e6):.3f} to {math.exp((mean + half) / 1e6):.3f}, 95 %)"
        return [f"{word}: p99.9 with {second} {interval} over {n:,} machines that ran both, longer on {worse:,}{ranks}"]

    def explain(self, most_values: int = 4, **options) -> Answer:
        """Facts and settings that separate machines with long tails from those with short ones. Nothing is called a cause."""
        chosen = self._selection(options)
        per_host, rows = chosen.query("worst"), chosen.query("explain")
        sums = self.data.dictionaries(per_host)
        hosts = [row["host"] for row in sums]
        if len(hosts) < 8:
            raise FleetError(f"{_count(len(hosts), 'machine is', 'machines are')} too few to separate by facts; 8 are the fewest, 50 a good number")
        runs = np.array([row["runs"] for row in sums], dtype=float)
        means = np.array([row["s"] / row["runs"] for row in sums])
        facts, untested = statistics.facts_of(self.data.rows(rows), hosts, runs)
        groups = statistics.explain(facts, statistics.normal_scores(means))
        answer = Answer("facts and settings that go with the tail", [per_host, rows])
        answer.columns = {"group": "", "fact": "fact", "value": "value", "hosts": "machines", "ratio": "p99.9 against the others", "share": "of the differences"}
        for number, group in enumerate(groups, 1):
            for fact in group.facts:
                effects = statistics.effect(fact, means)
                row = {"group": number, "fact": fact.name, "p": group.p, "share": group.share, "given": group.given, "tied": len(group.facts) > 1}
                answer.rows.append(row | {"values": [{"value": value, "hosts": n, "ratio": ratio} for value, n, ratio in effects]})
                # The largest effects to either side.
                strongest = sorted(effects, key=lambda one: -abs(math.log(one[2])))[:most_values]
                for value, n, ratio in sorted(strongest, key=lambda one: -one[2]):
                    answer.shown.append([str(number), fact.name, value[:48], f"{n:.4g}", f"× {ratio:.2f}", f"{group.share:.0%}"])
        answer.sentences = self._explained(groups, len(facts), len(hosts))
        answer.sentences += [f"not tested: {name}: {why}" for name, why in untested.items()] + self._about(chosen)
        return answer

    @staticmethod
    def _explained(groups: Sequence[statistics.Group], tested: int, hosts: int) -> list[str]:
        found = []
        for number, group in enumerate(groups, 1):
            names = [fact.name for fact in group.facts]
            if len(names) > 1:
                tied = f"{', '.join(names[:-1])} and {names[-1]} are tied: these machines cannot tell which of them it is"
                found.append(f"{number}: {tied} (p {_p(group.p)}, {group.share:.0%} of the differences)")
            else:
                found.append(f"{number}: {names[0]} (p {_p(group.p)}, {group.share:.0%} of the differences)")
        found = found or ["no fact separates these machines"]
        found.append(f"{_count(tested, 'fact or setting', 'facts and settings')} of {hosts:,} machines tested; a fact without effect is named in at most 1 of 100 fleets")
        found.append("what goes together need not be a cause: change it on some machines and compare")
        return found

    def drift(self, **options) -> Answer:
        """Machines whose tail changed, and after which run: with a fact that changed too, or with none."""
        chosen = self._selection(options)
        queries = [chosen.query("drift"), chosen.query("drift_facts")]
        series = self.data.columns(queries[0])
        runs, y = np.asarray(series["run"]), np.asarray(series["p999_ln"], dtype=float)
        _, hosts = np.unique(np.asarray(series["host"], dtype=str), return_inverse=True)
        names = np.unique(np.asarray(series["host"], dtype=str))
        facts = self._changing(queries[1], runs)
        as_is = statistics.changes(hosts, y)
        within = statistics.WithinMachines(hosts, y, facts)
        alone = statistics.changes(hosts, within.without_facts())
        sizes = within.sizes()
        answer = Answer("machines whose tail changed", queries)
        answer.columns = {"host": "machine", "from": "from", "runs": "runs", "step": "p99.9", "with": "changed too"}
        started = np.asarray(series["started_us"])
        for change, is_alone in _named(as_is, alone):
            beside = [name for name, values in facts.items() if _changed(values, change)]
            # Not apart from an update that has an effect: on this machine it may have a larger one.
            effective = [name for name, size in sizes.items() if size >= abs(change.step_ppm) / 4.0]
            inseparable = [name for name in effective if is_alone and not _is_beyond(y, facts[name], change)]
            is_alone, beside = is_alone and not inseparable, [*inseparable, *(name for name in beside if name not in inseparable)]
            if not is_alone and not beside:
                # The best split is runs away from the update that accounts for it.
                beside = [name for name in effective if len(np.unique(facts[name][change.first:change.end])) > 1]
                # Among many that were updated a few are named by chance; accounted for, this one is not.
                if not beside:
                    continue
            at = int(started[change.first + change.after])
            row = {"host": str(names[int(change.host)]), "started_us": at, "runs_before": change.after, "runs": change.end - change.first}
            row |= {"with": [] if is_alone else beside, "meanwhile": beside if is_alone else []}
            answer.rows.append(row | {"step_ppm": change.step_ppm, "p": change.p})
        answer.rows.sort(key=lambda row: (bool(row["with"]), -abs(row["step_ppm"]), row["host"]))
        for row in answer.rows:
            runs_text = f"{row['runs_before']} of {row['runs']}"
            too = ", ".join(row["with"]) or "nothing that explains it"
            # On other machines it changed without such a step.
            too += "".join(f" ({name} did, without effect elsewhere)" for name in row["meanwhile"])
            answer.shown.append([row["host"], _day(row["started_us"]), runs_text, _ratio(row["step_ppm"]), too])
        answer.sentences = self._drifted(answer.rows, as_is, len(names)) + self._about(chosen)
        asked = (chosen.tuning, chosen.load, chosen.series)
        undated = sum(one["runs"] for one in chosen.types if (one["tuning"], one["load"], one["series"]) == asked) - len(runs)
        if undated:
            answer.sentences.append(f"not counted: {_count(undated, 'run')} without a known start, and so without a place in the order of time")
        return answer

    def _changing(self, query: str, runs: np.ndarray) -> dict[str, np.ndarray]:
        """Facts that changed on some machine, as their value in each run."""
        found = self.data.columns(query)
        order = np.argsort(runs)
        # As numbers: comparing texts of many runs takes longer than all the rest.
        places = order[np.searchsorted(runs, np.asarray(found["run"]), sorter=order)]
        names, values = (np.unique(np.asarray(found[column], dtype=str), return_inverse=True) for column in ("name", "value"))
        facts = {}
        for number, name in enumerate(names[0].tolist()):
            is_of = names[1] == number
            of_runs = np.full(len(runs), -1)
            of_runs[places[is_of]] = values[1][is_of]
            facts[name] = of_runs
        return facts

    @staticmethod
    def _drifted(rows: Sequence[dict], tested: Sequence[statistics.Change], hosts: int) -> list[str]:
        alone = sum(not row["with"] for row in rows)
        found = [f"{_count(alone, 'machine')} changed and no known fact or setting explains it, {len(rows) - alone:,} changed as one did"]
        has = "has" if 1 in (len(tested), hosts) else "have"
        found.append(f"{len(tested):,} of {_count(hosts, 'machine')} {has} the {2 * statistics.FEWEST_BESIDE} runs that this needs; "
                     "of those named, at most 1 in 100 is expected to be wrong")
        return found

    def causes(self, by: str = "kernel", **options) -> Answer:
        """Causes of spikes, by the value of a fact or a setting, or by `host`."""
        chosen = self._selection(options)
        name, values = chosen.values(by)
        queries = [chosen.query("causes", values=values), chosen.query("causes_of", values=values)]
        of = {row["value"]: row for row in self.data.dictionaries(queries[1])}
        answer = Answer(f"causes of spikes by {name}", queries)
        answer.columns = {"value": name, "kind": "cause", "culprit": "by", "hosts": "machines", "spikes": "spikes", "rate": "per million releases", "worst": "worst"}
        for row in self.data.dictionaries(queries[0]):
            all_of = of[row["value"]]
            rate = 1e6 * row["spikes"] / max(1, all_of["releases"])
            answer.rows.append(row | {"of_hosts": all_of["hosts"], "releases": all_of["releases"]})
            hosts = f"{row['hosts']} of {all_of['hosts']}"
            worst = time_ns(row["worst_ns"]) if row["worst_ns"] else "–"
            answer.shown.append([row["value"], row["kind"], row["culprit"] or "others", hosts, f"{row['spikes']:,}", f"{rate:.3g}", worst])
        answer.sentences = self._about(chosen)
        if not answer.rows:
            answer.sentences.insert(0, f"no spike of these runs has a cause; causes need root when a run is recorded ({_count(len(of), 'value')} of {name})")
        return answer


def _named(as_is: Iterable[statistics.Change], alone: Iterable[statistics.Change]) -> list[tuple[statistics.Change, bool]]:
    """Machines that changed when facts are accounted for (true), and those that changed and whose facts account for it."""
    found = {change.host: (change, True) for change in alone if change.named}
    for change in as_is:
        if change.named:
            found.setdefault(change.host, (change, False))
    return list(found.values())


def _is_beyond(y: np.ndarray, values: np.ndarray, change: statistics.Change) -> bool:
    """Whether a machine's change is apart from that of a fact; a fact that did not change there is no matter."""
    of_machine = slice(change.first, change.end)
    if len(np.unique(values[of_machine])) < 2:
        return True
    return statistics.is_split_beyond(y[of_machine], change.after, values[of_machine])


def _changed(values: np.ndarray, change: statistics.Change) -> bool:
    """Whether a fact changed where the tail did, give or take one run."""
    split = change.first + change.after
    low, high = max(change.first + 1, split - 1), min(change.end - 1, split + 1)
    return any(values[place] != values[place - 1] for place in range(low, high + 1))


def _day(started_us: int) -> str:
    import datetime

    return datetime.datetime.fromtimestamp(started_us / 1e6, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")


__all__ = ["Answer", "Fleet", "time_ns"]

"""Fleets whose truth is known: made directly as packed tables, and as rows for the statistics alone.

usage: planted.py make DIR [HOSTS NIGHTS SEED SWAPPED]     a data set; prints what is planted as JSON
       planted.py plan FILE [HOSTS NIGHTS SEED SWAPPED]    the same fleet as a plan for the example synthetic_runs, a line for each run, night by night
       planted.py draws NUMBER [HOSTS]                     prints in how many draws a fact without effect was named
       planted.py ties NUMBER [HOSTS]                      prints in how many draws the BIOS and its board are named, by how far they coincide
       planted.py holds DIR TRUTH                          asserts that the questions find the truth of a file that `make` or `plan` printed
       planted.py check DIR                                asks the questions, prints what they found as JSON
       planted.py time DIR [REPEATS]                       prints seconds of each question, and the memory it took

SWAPPED machines of the board with the bad BIOS have another BIOS: with none, nobody can tell the two apart, with 40, everybody can.
"""

import json
import math
import resource
import sys
import time
from pathlib import Path

import duckdb
import numpy as np

from onbeat.fleet import Fleet, statistics
from onbeat.fleet.data_set import TABLES

CELLS = [(tuning, load) for tuning in ("none", "P", "M", "C", "PM", "PC", "MC", "PMC", "PMCS") for load in ("idle", "paper")]
PLACEBOS = 24
BIOS, BOARD = "2.07", "B-200"
# Hosts, nights, seed, machines of the board with another BIOS.
FLEET = (400, 25, 1, 0)
# Natural logarithms: a bad kernel doubles p99.9, a bad BIOS makes it 1.57 times as long.
BAD_KERNEL, BAD_BIOS, DRIFT, UPDATE = math.log(2.0), math.log(1.57), math.log(1.45), math.log(0.7)
START_US = 1_793_491_200_000_000
DAY_US = 86_400_000_000


class Planted:
    """Hosts with facts, and the logarithm of p99.9 of each night in nanoseconds. `unlike_boards` is the effect of one board that has the good BIOS."""

    def __init__(self, hosts: int, nights: int, seed: int, swapped: int = 0, unlike_boards: float = 0.0):
        self.random = np.random.default_rng(seed)
        self.hosts, self.nights, self.swapped = hosts, nights, swapped
        self.names = [f"walker-{number:05d}" for number in range(hosts)]
        self._facts()
        noise = self.random.normal(0.0, 0.25, (hosts, 1)) + self.random.normal(0.0, 0.08, (hosts, nights))
        night = np.arange(nights)
        # Updated one after the other: half of the machines that are not on the bad kernel.
        is_updated = night >= self.update_night[:, None]
        is_drifted = night >= self.drift_night[:, None]
        bad = BAD_KERNEL * self.has_bad_kernel + BAD_BIOS * self.has_bad_bios + unlike_boards * (self.board == "A-100")
        self.y = math.log(40_000.0) + noise + bad[:, None] + UPDATE * is_updated + DRIFT * is_drifted
        self.kernel = np.where(self.has_bad_kernel[:, None], "6.6.1-bad", np.where(is_updated, "6.12.2-rt", "6.1.9-rt"))
        # Rolled out half-way, on all machines, without an effect.
        self.image = np.broadcast_to(np.where(night >= nights // 2, "2026.11", "2026.10"), (hosts, nights))

    def _facts(self) -> None:
        random, hosts = self.random, self.hosts
        self.has_bad_kernel = random.random(hosts) < 0.15
        # One board has the bad BIOS, on all of its machines but those that are swapped, and no other board has it.
        has_board = random.random(hosts) < 0.3
        self.board = np.where(has_board, BOARD, np.where(np.arange(hosts) % 2 == 0, "A-100", "C-300"))
        self.has_bad_bios = has_board.copy()
        self.has_bad_bios[np.flatnonzero(has_board)[:self.swapped]] = False
        self.update_night = np.where(~self.has_bad_kernel & (random.random(hosts) < 0.5), random.integers(4, max(5, self.nights - 3), hosts), self.nights)
        self.drift_night = np.full(hosts, self.nights)
        # Drift beside updates, on machines that were not updated.
        free = np.flatnonzero((self.update_night == self.nights) & ~self.has_bad_kernel)
        self.drifting = random.choice(free, 12, replace=False)
        self.drift_night[self.drifting] = random.integers(5, max(6, self.nights - 5), 12)
        self.placebos = {}
        for number in range(PLACEBOS):
            values = random.integers(2, 6)
            self.placebos[f"placebo {number:02d}"] = random.integers(0, values, hosts)

    def constant_facts(self) -> dict[str, np.ndarray]:
        """Facts that stay on each machine."""
        facts = {name: np.array([f"v{value}" for value in values]) for name, values in self.placebos.items()}
        return facts | {"board": self.board, "BIOS": np.where(self.has_bad_bios, BIOS, "1.42"), "processor": np.full(self.hosts, "Planted CPU")}

    def truth(self) -> dict:
        """What is planted."""
        updated = [self.names[place] for place in np.flatnonzero(self.update_night < self.nights)]
        nights = {self.names[place]: int(self.drift_night[place]) for place in self.drifting}
        return {"drifting": nights, "updated": updated, "bad_kernel": int(self.has_bad_kernel.sum())}


def make(root: Path, hosts: int, nights: int, seed: int, swapped: int) -> None:
    """Writes a data set of packed files: every host runs every night."""
    planted = Planted(hosts, nights, seed, swapped)
    root.mkdir(parents=True)
    connection = duckdb.connect()
    connection.execute("SET threads = 2; SET memory_limit = '2GB'")
    facts = planted.constant_facts()
    for night in range(nights):
        day = time.strftime("%Y-%m-%d", time.gmtime((START_US + night * DAY_US) / 1e6))
        started = START_US + night * DAY_US + planted.random.integers(0, 3_600_000_000, hosts)
        run = np.arange(hosts, dtype=np.int64) * nights + night + 1
        host = np.array(planted.names)
        kernel, image = planted.kernel[:, night], planted.image[:, night]
        text = lambda value: np.full(hosts, value)
        runs = {"run": run, "id": np.array([f"{one:032x}" for one in run]), "host": host, "started_us": started, "kernel": kernel, "bios": facts["BIOS"],
                "board": facts["board"], "processor": facts["processor"], "image": image, "command": text("planted"), "version": text("0.1.0"),
                "schema": np.ones(hosts, dtype=np.int64), "revision": np.ones(hosts, dtype=np.int64), "complete": np.full(hosts, True)}
        of_night = facts | {"kernel": kernel, "image": image}
        rows = {"run": np.tile(run, len(of_night)), "host": np.tile(host, len(of_night)), "name": np.repeat(list(of_night), hosts), "value": np.concatenate(list(of_night.values()))}
        _write(connection, root, day, "cells", _cells(planted, night, run, host, started), "tuning, load, host")
        _write(connection, root, day, "facts", rows, "name, value, host")
        _write(connection, root, day, "runs", runs, "host")
    # Last: a data set without it is none.
    (root / "onbeat-fleet.json").write_text('{"schema":"onbeat.fleet/1","tables":1}\n')
    print(json.dumps(planted.truth()))


def plan(file: Path, hosts: int, nights: int, seed: int, swapped: int) -> None:
    """Writes what each run is to be. Its machine is named by the first digits of its number."""
    planted = Planted(hosts, nights, seed, swapped)
    planted.names = [f"{host + 1:010x}00" for host in range(hosts)]
    constant = planted.constant_facts()
    with file.open("w", encoding="utf-8") as out:
        for night in range(nights):
            for host in range(hosts):
                started_s = (START_US + night * DAY_US) / 1e6 + planted.random.random() * 3600.0
                facts = {name: str(values[host]) for name, values in constant.items()}
                facts |= {"kernel": str(planted.kernel[host, night]), "image": str(planted.image[host, night])}
                scale = math.exp(planted.y[host, night] - math.log(40_000.0))
                print(json.dumps({"host": host, "started_s": started_s, "scale": scale, "facts": facts}), file=out)
    print(json.dumps(planted.truth()))


def _cells(planted: Planted, night: int, run: np.ndarray, host: np.ndarray, started: np.ndarray) -> dict[str, np.ndarray]:
    hosts, cells = planted.hosts, len(CELLS)
    offsets = np.linspace(0.8, 0.0, cells)[:, None]
    ln = planted.y[:, night] + offsets + planted.random.normal(0.0, 0.02, (cells, hosts))
    p999 = np.exp(ln).astype(np.int64).ravel()
    whole = lambda number: np.full(cells * hosts, number, dtype=np.int64)
    columns = {"run": np.tile(run, cells), "host": np.tile(host, cells), "started_us": np.tile(started, cells)}
    columns |= {"tuning": np.repeat([tuning for tuning, _ in CELLS], hosts), "load": np.repeat([load for _, load in CELLS], hosts)}
    columns |= {name: whole(0) for name, kind in TABLES["cells"].items() if kind == "whole" and name not in columns}
    columns |= {"slots": whole(60_000), "cycles": whole(60_000), "samples": whole(60_000), "p999_ns": p999, "max_ns": p999 * 3, "min_ns": whole(900)}
    columns |= {"p50_ns": p999 // 10, "p90_ns": p999 // 4, "p99_ns": p999 // 2, "p9999_ns": p999 * 2, "p999_ln": np.round(np.log(p999) * 1e6).astype(np.int64)}
    columns |= {"series": np.full(cells * hosts, "release_latency"), "verdict": np.full(cells * hosts, ""), "invalid_why": np.full(cells * hosts, "")}
    return columns | {"valid": np.full(cells * hosts, True)}


def _write(connection: duckdb.DuckDBPyConnection, root: Path, day: str, table: str, columns: dict[str, np.ndarray], order: str) -> None:
    folder = root / "packed" / table / f"day={day}"
    folder.mkdir(parents=True)
    columns = {name: np.asarray(values, dtype=object) if values.dtype.kind == "U" else values for name, values in columns.items()}
    assert set(columns) == set(TABLES[table]), set(columns) ^ set(TABLES[table])
    listed = ", ".join(TABLES[table])
    to = folder / "g000001-000.parquet"
    connection.execute(f"COPY (SELECT {listed} FROM columns ORDER BY {order}) TO '{to}' (FORMAT parquet, COMPRESSION zstd)")


def groups_of(planted: Planted) -> list[set[str]]:
    """The facts that `explain` names, those that are tied together."""
    runs = np.full(planted.hosts, float(planted.nights))
    rows = [(name, value, host, planted.nights) for name, values in planted.constant_facts().items() for value, host in zip(values.tolist(), planted.names, strict=True)]
    for place, host in enumerate(planted.names):
        values, counts = np.unique(planted.kernel[place], return_counts=True)
        rows += [("kernel", value, host, int(count)) for value, count in zip(values.tolist(), counts.tolist(), strict=True)]
    facts, _ = statistics.facts_of(rows, planted.names, runs)
    return [{fact.name for fact in group.facts} for group in statistics.explain(facts, statistics.normal_scores(planted.y.mean(axis=1)))]


def draws(number: int, hosts: int) -> None:
    """How often a fact without effect is named, beside facts with one."""
    named, found = 0, 0
    for seed in range(number):
        names = set().union(*groups_of(Planted(hosts, 25, 1_000 + seed)))
        named += any(name.startswith("placebo") for name in names)
        found += {"kernel", "BIOS"} <= names
    print(json.dumps({"draws": number, "placebo_named": named, "both_found": found}))


def ties(number: int, hosts: int) -> None:
    """As what the BIOS and its board are named: tied on the same machines, apart where many machines have one without the other, and never the board alone."""
    found = {}
    for name, swapped, unlike in (("same_machines", 0, 0.0), ("same_machines_and_other_boards_differ", 0, 0.3), ("but_2", 2, 0.0), ("but_40", 40, 0.0)):
        of = {"tied": 0, "BIOS": 0, "board": 0}
        for seed in range(number):
            groups = groups_of(Planted(hosts, 25, 2_000 + seed, swapped, unlike))
            first = next((group for group in groups if group & {"BIOS", "board"}), set())
            of["tied" if {"BIOS", "board"} <= first else "BIOS" if "BIOS" in first else "board"] += 1
        found[name] = of
    print(json.dumps({"draws": number} | found))


def holds(root: Path, truth: dict) -> None:
    """Every cause that is planted is found, and hardly anything else."""
    found = found_in(root)
    groups = [set(group) for group in found["groups"]]
    # On the same machines they are tied. Where some have one without the other, these may tell that it is the BIOS; never that it is the board.
    allowed = [{"BIOS", "board"}] if found["coincide"] else [{"BIOS", "board"}, {"BIOS"}]
    assert len(groups) == 2 and groups[0] == {"kernel"} and groups[1] in allowed, (groups, allowed)
    value, ratio = found["worst_values"]["kernel"]
    assert value == "6.6.1-bad" and 1.8 < ratio < 2.3, (value, ratio)
    alone, drifting, updated = set(found["alone"]), set(truth["drifting"]), set(truth["updated"])
    assert drifting <= alone and len(alone) <= len(drifting) + 2, (drifting - alone, alone - drifting)
    assert all(abs(found["alone"][host] - night) <= 1 for host, night in truth["drifting"].items()), found["alone"]
    assert len(alone & updated) <= 1, alone & updated
    others = set(found["with"]) - updated
    assert len(others) <= 2 and len(found["with"]) > len(updated) / 2, (others, len(found["with"]))
    pair = f"{' and '.join(sorted(groups[1]))}{' tied' if len(groups[1]) > 1 else ''}{', which are on the same machines' if found['coincide'] else ''}"
    print(f"planted and found: kernel × {ratio}, {pair}; {len(drifting)} of {len(drifting)} machines that drift beside {len(updated)} updated; "
          f"{len(alone - drifting)} other machines named as drifting; {found['compared']}")


# Of each run: whether it has the bad BIOS, and whether its board is the one that does.
PAIRS = f"""SELECT DISTINCT f.value = '{BIOS}', b.value = '{BOARD}' FROM facts f JOIN facts b ON b.run = f.run
  WHERE f.name = 'BIOS' AND b.name = 'board'"""


def check(root: Path) -> None:
    """What the questions find."""
    print(json.dumps(found_in(root)))


def found_in(root: Path) -> dict:
    fleet = Fleet(root)
    about = {"cell": "PMCS/paper"}
    explained = fleet.explain(**about)
    groups: dict[int, list[str]] = {}
    for row in explained.rows:
        groups.setdefault(row["group"], []).append(row["fact"])
    worst_of = {row["fact"]: max(row["values"], key=lambda value: value["ratio"]) for row in explained.rows}
    drifted = fleet.drift(**about)
    compared = fleet.compare("image=2026.10", "image=2026.11", alike=["kernel"], **about)
    gate = fleet.gate(100_000, 99.9, **about)
    return {
        "groups": list(groups.values()),
        "coincide": all(one == other for one, other in fleet.data.rows(PAIRS)),
        "worst_values": {name: (one["value"], round(one["ratio"], 3)) for name, one in worst_of.items()},
        "alone": {row["host"]: row["runs_before"] for row in drifted.rows if not row["with"]},
        "with": {row["host"]: row["with"] for row in drifted.rows if row["with"]},
        "compared": compared.sentences[0],
        "pairs": len(compared.rows),
        "gate": gate.sentences[0],
        "worst": fleet.worst(**about).rows[0]["host"],
        "left_out": [sentence for sentence in gate.sentences if sentence.startswith("not counted")],
    }


def timed(root: Path, repeats: int) -> None:
    """Seconds of each question, the median of some; opening the data set is a question of its own."""
    questions = {
        "open": lambda: Fleet(root),
        "worst": lambda: fleet.worst(cell="PMCS/paper"),
        "gate": lambda: fleet.gate(100_000, 99.9, cell="PMCS/paper"),
        "compare": lambda: fleet.compare("image=2026.10", "image=2026.11", cell="PMCS/paper"),
        "drift": lambda: fleet.drift(cell="PMCS/paper"),
        "explain": lambda: fleet.explain(cell="PMCS/paper"),
    }
    fleet = Fleet(root)
    if fleet.data.rows("SELECT COUNT(*) FROM histograms")[0][0]:
        questions["worst --exact"] = lambda: fleet.worst(exact=True, cell="PMCS/paper")
    found = {}
    for name, ask in questions.items():
        took = []
        for _ in range(repeats):
            before = time.monotonic()
            ask()
            took.append(time.monotonic() - before)
        found[name] = round(sorted(took)[len(took) // 2], 3)
    print(json.dumps({"seconds": found, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


def main(words: list[str]) -> None:
    match words:
        case ["make", root, *rest]:
            make(Path(root), *map(int, rest), *FLEET[len(rest):])
        case ["plan", file, *rest]:
            plan(Path(file), *map(int, rest), *FLEET[len(rest):])
        case ["draws", number, *rest]:
            draws(int(number), int(rest[0]) if rest else FLEET[0])
        case ["ties", number, *rest]:
            ties(int(number), int(rest[0]) if rest else FLEET[0])
        case ["holds", root, truth]:
            holds(Path(root), json.loads(Path(truth).read_text(encoding="utf-8")))
        case ["check", root]:
            check(Path(root))
        case ["time", root, *rest]:
            timed(Path(root), int(rest[0]) if rest else 5)
        case _:
            sys.exit(__doc__)


main(sys.argv[1:])

"""A data set of `onbeat fleet add` as tables of DuckDB: which of its files count, and views of them."""

import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path

import duckdb

from . import object_store
from .errors import FleetError
from .object_store import quoted

MARKER = "onbeat-fleet.json"
# Tables of a later version may mean something else.
VERSION = 1
TABLES: dict[str, dict[str, str]] = json.loads(files(__package__).joinpath("tables.json").read_text(encoding="utf-8"))
# Memory that DuckDB plans with; the process takes about as much again for what is being read.
MEMORY = "400MB"
# A day is packed while it is read at most a few times.
TRIES = 5
# How settings are named among facts.
SETTING = "setting "
# The value of a setting, and of a fact, in a run that has no row of it.
AS_WANTED, UNREAD = "as wanted", "unknown"
# What the other values of a setting are together.
NOT_AS_WANTED = "not as wanted"
# Facts of a run's loop, not of its machine.
LOOP_FACTS = ("probe", "loop period", "loop wait", "loop priority")
_LANDED = re.compile(r"([0-9a-f]{32})\.(\d+)\.parquet")
_PACKED = re.compile(r"g(\d+)-\d+\.parquet")
_SQL_TYPES = {"text": "VARCHAR", "whole": "BIGINT", "flag": "BOOLEAN"}


def _literal(path: str) -> str:
    """A path that is not a pattern."""
    return re.sub(r"[*?\[]", r"[\g<0>]", path)


def _listed(paths: Iterable[str]) -> str:
    """Paths as a list of SQL."""
    return "[" + ", ".join(quoted(_literal(path)) for path in paths) + "]"


def sql(name: str) -> str:
    """The text of a query, with places for what is asked."""
    return files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def filled(name: str, **places: str) -> str:
    """The text of a query, with what is asked in its places."""
    # At once: a load such as `run:echo {where}` is only a name.
    text = re.sub(r"\{(\w+)\}", lambda place: places[place[1]], sql(name))
    # A condition that is not there leaves blanks behind.
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _in_directory(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as why:
        raise FleetError(f"cannot read {folder}: {why.strerror}") from why


class Names:
    """The names of files in the folders of a data set, as they are found when they are asked for; those of an object store are listed once."""

    def __init__(self, root: str | Path, connection: duckdb.DuckDBPyConnection):
        self.root = root
        self._of_folders: dict[str, list[str]] | None = None
        if object_store.is_address(root):
            self._of_folders = defaultdict(list)
            for (file,) in connection.execute(f"SELECT file FROM glob({quoted(f'{_literal(str(root))}/**')}) ORDER BY file").fetchall():
                folder, _, name = file.removeprefix(f"{root}/").rpartition("/")
                self._of_folders[folder].append(name)

    def of(self, folder: str) -> list[str]:
        """The names in a folder; none where there is no such folder."""
        return _in_directory(Path(self.root) / folder) if self._of_folders is None else self._of_folders.get(folder, [])

    def days(self, place: str) -> list[str]:
        """The days that have runs in `landing` or `packed`."""
        if self._of_folders is None:
            return [name for name in self.of(f"{place}/runs") if name.startswith("day=")]
        return [folder.removeprefix(f"{place}/runs/") for folder in self._of_folders if folder.startswith(f"{place}/runs/day=")]

    def paths(self, folder: str, which: Callable[[str], bool]) -> list[str]:
        """Where those names in a folder lead."""
        return [f"{self.root}/{folder}/{name}" for name in self.of(folder) if which(name)]

    def generations(self) -> dict[str, int]:
        """The newest complete generation of each packed day."""
        newest = {}
        for day in self.days("packed"):
            numbers = [int(found[1]) for name in self.of(f"packed/runs/{day}") if (found := _PACKED.fullmatch(name))]
            if numbers:
                newest[day] = max(numbers)
        return newest


def _is_gone(why: Exception) -> bool:
    """Whether a file of a listing is not there any more."""
    return any(words in str(why) for words in ("No such file", "No files found"))


class Listing:
    """The files of a data set that count: of each table, packed ones and landed ones."""

    def __init__(self, root: str | Path, connection: duckdb.DuckDBPyConnection):
        names = Names(root, connection)
        # The landing first: runs move from there into packed files, and never back.
        landed: dict[tuple[str, str], int] = {}
        for day in names.days("landing"):
            for name in names.of(f"landing/runs/{day}"):
                if found := _LANDED.fullmatch(name):
                    landed[day, found[1]] = max(int(found[2]), landed.get((day, found[1]), -1))
        self.generations = names.generations()
        self.packed = {table: self._parts(names, table) for table in TABLES}
        self.replaced = self._settle(landed, connection)
        chosen: dict[str, set[str]] = defaultdict(set)
        for (day, run), revision in landed.items():
            chosen[day].add(f"{run}.{revision}.parquet")
        self.landed = {table: [path for day, of_day in chosen.items() for path in names.paths(f"landing/{table}/{day}", of_day.__contains__)] for table in TABLES}
        self.is_settled = self.generations == names.generations()

    def _parts(self, names: Names, table: str) -> list[str]:
        def is_newest(name: str) -> bool:
            found = _PACKED.fullmatch(name)
            return found is not None and int(found[1]) == generation

        parts = []
        for day, generation in self.generations.items():
            parts += names.paths(f"packed/{table}/{day}", is_newest)
        return parts

    def _settle(self, landed: dict[tuple[str, str], int], connection: duckdb.DuckDBPyConnection) -> list[int]:
        """Takes from the landing what is packed as well; returns the packed runs of which the landing has more."""
        replaced = []
        if not landed or not self.packed["runs"]:
            return replaced
        listed = _listed(self.packed["runs"])
        runs = connection.execute(f"SELECT run, id, revision, filename FROM read_parquet({listed}, filename = true, hive_partitioning = false)")
        for run, identity, revision, name in runs.fetchall():
            key = (Path(name).parent.name, identity)
            if key in landed:
                if landed[key] > revision:
                    replaced.append(run)
                else:
                    del landed[key]
        return replaced


class DataSet:
    """Tables of a data set, as views `runs`, `cells`, `histograms`, `outages`, `causes`, `facts`, `settings` and `versions`."""

    def __init__(self, path: str | Path):
        self._scratch = tempfile.TemporaryDirectory(prefix="onbeat-fleet-")
        self.connection = duckdb.connect(config={"temp_directory": self._scratch.name, "memory_limit": MEMORY})
        # A slow statement would print its progress among the answers, the next one too.
        self.connection.execute("SET enable_progress_bar = false")
        # Nothing is fetched from elsewhere because a query needs it.
        self.connection.execute("SET autoinstall_known_extensions = false; SET autoload_known_extensions = false")
        self.path: str | Path = str(path).rstrip("/") if object_store.is_address(path) else Path(path)
        try:
            if object_store.is_address(path):
                object_store.reach(self.connection)
            self._check(self._marker())
        except duckdb.Error as why:
            raise self.broken(why) from why
        self._open()

    def _marker(self) -> str | None:
        """The file by which a data set is known; None where there is none."""
        if object_store.is_address(self.path):
            if MARKER not in Names(self.path, self.connection).of(""):
                return None
            return self.connection.execute(f"SELECT content FROM read_text({quoted(f'{_literal(self.path)}/{MARKER}')})").fetchall()[0][0]
        try:
            return (self.path / MARKER).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as why:
            raise FleetError(f"cannot read {self.path / MARKER}: {getattr(why, 'strerror', None) or 'it is not a marker of onbeat fleet'}") from why

    def _check(self, marker: str | None) -> None:
        if marker is None:
            what = f"has no {MARKER}" if object_store.is_address(self.path) or self.path.is_dir() else "is not a directory"
            raise FleetError(f"{self.path} is not a data set of onbeat fleet: it {what}; onbeat fleet add RUN --to {self.path} makes one")
        try:
            version = json.loads(marker).get("tables")
        except (ValueError, AttributeError) as why:
            raise FleetError(f"cannot read {self.path}/{MARKER}: it is not a marker of onbeat fleet") from why
        if not isinstance(version, int) or version > VERSION:
            raise FleetError(f"{self.path} has tables of version {version}, and this package knows version {VERSION}; use a later onbeat")

    def _open(self) -> None:
        for _ in range(TRIES):
            try:
                listing = Listing(self.path, self.connection)
                if listing.is_settled:
                    self._make_views(listing)
                    return
            except duckdb.IOException as why:
                # A file that is gone was packed in the meantime, and is in the next listing.
                if not _is_gone(why):
                    raise self.broken(why) from why
            except duckdb.Error as why:
                raise self.broken(why) from why
        raise self._unsettled()

    def _make_views(self, listing: Listing) -> None:
        for table, columns in TABLES.items():
            typed = ", ".join(f"CAST(NULL AS {_SQL_TYPES[kind]}) AS {name}" for name, kind in columns.items())
            parts = [f"SELECT {typed} WHERE false"]
            options = "union_by_name = true, hive_partitioning = false"
            if listing.packed[table]:
                without = f" WHERE run NOT IN ({', '.join(map(str, listing.replaced))})" if listing.replaced else ""
                parts.append(f"SELECT * FROM read_parquet({_listed(listing.packed[table])}, {options}){without}")
            if listing.landed[table]:
                parts.append(f"SELECT * FROM read_parquet({_listed(listing.landed[table])}, {options})")
            self.connection.execute(f"CREATE OR REPLACE VIEW {table} AS " + " UNION ALL BY NAME ".join(parts))

    def broken(self, why: Exception) -> FleetError:
        """A sentence for an error of the engine."""
        text = str(why).splitlines()[0]
        if isinstance(why, duckdb.HTTPException):
            return FleetError(f"cannot read {self.path}: {text}")
        if found := re.search(r"'([^']+\.parquet)'", text):
            # A run counts as long as its file of `runs` is there: all files of its name go, or it would not be added again.
            place, _, day, name = found[1].rsplit("/", 3)
            name = re.sub(r"^(g\d+)-\d+", r"\1-*", name)
            return FleetError(f"{found[1]} is not a whole Parquet file ({text}); move {place}/*/{day}/{name} away, and add its runs again")
        return FleetError(f"the engine cannot answer this from {self.path}: {text}")

    def _executed(self, query: str) -> duckdb.DuckDBPyConnection:
        for _ in range(TRIES):
            try:
                return self.connection.execute(query)
            except duckdb.IOException as why:
                if not _is_gone(why):
                    raise self.broken(why) from why
            except duckdb.Error as why:
                raise self.broken(why) from why
            # Packed since the data set was opened.
            self._open()
        raise self._unsettled()

    def _unsettled(self) -> FleetError:
        return FleetError(f"{self.path} changed {TRIES} times while it was read; try again when `onbeat fleet pack` has ended")

    def rows(self, query: str) -> list[tuple]:
        """The rows of a query."""
        return self._executed(query).fetchall()

    def dictionaries(self, query: str) -> list[dict]:
        """The rows of a query, by the names of its columns."""
        executed = self._executed(query)
        names = [column[0] for column in executed.description]
        return [dict(zip(names, row, strict=True)) for row in executed.fetchall()]

    def columns(self, query: str) -> dict:
        """The columns of a query as numpy arrays, for many rows."""
        return self._executed(query).fetchnumpy()


class Selection:
    """Which runs a question is about: a cell type, one series of it, and conditions on facts."""

    def __init__(
        self, fleet: DataSet, cell: str | None = None, where: Iterable[str] = (), since: str | None = None, until: str | None = None, series: str | None = None
    ):
        self.fleet = fleet
        self.conditions = list(where)
        self.where = "".join(self.condition(one) for one in self.conditions)
        self.where += self._day(since, ">=", 0) + self._day(until, "<", 1)
        self.types = fleet.dictionaries(filled("cell_types", where=self.where))
        if not self.types:
            self._refuse_nothing()
        self.tuning, self.load, self.series = self._choose(cell, series)
        # A round trip and a release latency are not added up.
        self.where += f" AND c.series = {quoted(self.series)}"

    def _refuse_nothing(self) -> None:
        of_all = self.fleet.rows("SELECT COUNT(*), COUNT(*) FILTER (WHERE valid) FROM cells")[0]
        if of_all[1]:
            raise FleetError(f"no valid run fits {' and '.join(self.conditions) or 'these days'}; {of_all[1]} cells do without a condition")
        if not of_all[0]:
            raise FleetError(f"{self.fleet.path} has no run; onbeat fleet add RUN --to {self.fleet.path} adds one")
        reasons = [f"{one['cells']} of {of_all[0]} cells: {one['why']}" for one in self.fleet.dictionaries(filled("left_out", where=""))]
        raise FleetError(f"{self.fleet.path} has no valid run; not counted: {'; '.join(reasons[:3])}")

    def _choose(self, cell: str | None, series: str | None) -> tuple[str, str, str]:
        types = [one for one in self.types if series in (None, one["series"])]
        if not types:
            known = ", ".join(sorted({one["series"] for one in self.types}))
            raise FleetError(f"no run has the series {series}; the series are {known}")
        if cell is None:
            return types[0]["tuning"], types[0]["load"], types[0]["series"]
        for one in types:
            if cell == f"{one['tuning']}/{one['load']}":
                return one["tuning"], one["load"], one["series"]
        known = list(dict.fromkeys(f"{one['tuning']}/{one['load']}" for one in types))
        raise FleetError(f"no run has the cell {cell}; the cells are {', '.join(known[:8])}" + (", ..." if len(known) > 8 else ""))

    def others(self) -> list[dict]:
        """The other series of the cell: what this question does not count."""
        return [one for one in self.types if (one["tuning"], one["load"]) == (self.tuning, self.load) and one["series"] != self.series]

    @staticmethod
    def _day(day: str | None, how: str, later: int) -> str:
        if day is None:
            return ""
        import datetime

        try:
            date = datetime.date.fromisoformat(day) + datetime.timedelta(days=later)
        except (ValueError, OverflowError):
            raise FleetError(f"'{day}' is not a valid day; write 2026-11-28") from None
        start = datetime.datetime.combine(date, datetime.time(), datetime.timezone.utc)
        return f" AND c.started_us {how} {int(start.timestamp()) * 1_000_000}"

    def condition(self, text: str) -> str:
        """A condition on a fact, `kernel=6.12.0-rt`, as SQL."""
        name, equals, value = text.partition("=")
        if not equals:
            raise FleetError(f"'{text}' is not a valid condition; write FACT=VALUE, such as kernel=6.12.0-rt")
        if name.lower() == "host":
            return f" AND c.host = {quoted(value)}"
        rows, without = self._rows_of(self.fact(name))
        if value == without:
            return f" AND c.run NOT IN (SELECT run FROM {rows} AND value <> {quoted(value)})"
        if value == NOT_AS_WANTED and without == AS_WANTED:
            return f" AND c.run IN (SELECT run FROM {rows})"
        return f" AND c.run IN (SELECT run FROM {rows} AND value = {quoted(value)})"

    def group(self, text: str) -> str:
        """A condition that some of the runs fit, as SQL."""
        where = self.condition(text)
        if not self.in_all(where):
            name, table = self.values(text.partition("=")[0])
            of_runs = f"SELECT f.value FROM cells c JOIN {table} f ON f.run = c.run {self._counted()}"
            known = [row[0] for row in self.fleet.rows(f"{of_runs} GROUP BY f.value ORDER BY COUNT(*) DESC, f.value LIMIT 9")]
            listed = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
            raise FleetError(f"no run of the cell {self.tuning}/{self.load} fits {text}; {name} is {listed}")
        return where

    def in_all(self, *conditions: str) -> int:
        """How many of the runs fit all of these conditions."""
        return self.fleet.rows(f"SELECT COUNT(*) FROM cells c {self._counted()} {' '.join(conditions)}")[0][0]

    @staticmethod
    def _rows_of(known: str) -> tuple[str, str]:
        """The rows of a fact or a setting, as SQL, and its value in a run that has none of them."""
        name = known.removeprefix(SETTING)
        table, without = ("facts", UNREAD) if name == known else ("settings", AS_WANTED)
        return f"{table} WHERE name = {quoted(name)}", without

    def values(self, name: str) -> tuple[str, str]:
        """The fact or setting of this name, and its value in each run as a table of SQL."""
        if name.lower() == "host":
            return "host", "(SELECT run, host AS value FROM runs)"
        known = self.fact(name)
        rows, without = self._rows_of(known)
        table = f"(SELECT r.run, COALESCE(f.value, {quoted(without)}) AS value FROM runs r LEFT JOIN (SELECT run, value FROM {rows}) f ON f.run = r.run)"
        return known, table

    def fact(self, name: str) -> str:
        """The fact of this name, in whatever case it was typed."""
        known = [row[0] for row in self.fleet.rows("SELECT DISTINCT name FROM facts ORDER BY name")]
        known += [row[0] for row in self.fleet.rows(f"SELECT DISTINCT CONCAT({quoted(SETTING)}, name) FROM settings ORDER BY 1")]
        for one in known:
            if one.lower() == name.lower():
                return one
        listed = ", ".join(one for one in known if not one.startswith(SETTING))
        raise FleetError(f"no run has the fact '{name}'; there are host, {listed}")

    def query(self, name: str, **places: str) -> str:
        """The text of a query about these runs."""
        return filled(name, tuning=quoted(self.tuning), load=quoted(self.load), where=self.where, **places)

    def loops(self) -> dict[str, list[tuple[str, int]]]:
        """Facts of the loops that are counted, each with its values and the runs of each."""
        query = (f"SELECT f.name, f.value, COUNT(*) AS runs FROM facts f JOIN cells c ON c.run = f.run {self._counted()} "
                 f"AND f.name IN ({', '.join(map(quoted, LOOP_FACTS))}) GROUP BY f.name, f.value ORDER BY f.name, runs DESC, f.value")
        found: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for name, value, runs in self.fleet.rows(query):
            found[name].append((value, runs))
        return found

    def unknown(self) -> int:
        """How many of the machines are runs that do not say which machine they are of."""
        return self.fleet.rows(f"SELECT COUNT(DISTINCT c.host) FROM cells c {self._counted()} AND c.host LIKE 'unknown-%'")[0][0]

    def _counted(self) -> str:
        return f"WHERE c.valid AND c.tuning = {quoted(self.tuning)} AND c.load = {quoted(self.load)} {self.where}"

    def left_out(self) -> list[dict]:
        """Cells that no question counts, by reason."""
        return self.fleet.dictionaries(filled("left_out", where=self.where))

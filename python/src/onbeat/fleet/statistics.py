"""Statistics of a fleet. The unit is always the machine, because its runs are alike: as many runs of one machine are not as many machines.

Sources: Student's t and F by the incomplete beta function (Abramowitz and Stegun 26.5, 26.6; continued fraction by Lentz 1976), Clopper and
Pearson (1934), Holm (1979), Benjamini and Hochberg (1995), Blom's normal scores (1958), Wilcoxon's signed ranks (1945).
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from statistics import NormalDist

import numpy as np

from .data_set import AS_WANTED, NOT_AS_WANTED, SETTING, UNREAD

# A fact is named when the chance that any fact without effect is named is at most this.
FAMILY_WISE = 0.01
# A machine is named as changed when at most this share of those named is expected not to have.
FALSE_SHARE = 0.01
# Runs of a machine before and after a change, at least.
FEWEST_BESIDE = 3
# Machines with a value of a fact, at least; others are one value together.
FEWEST_MACHINES = 2
_NORMAL = NormalDist()


def beta_share(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b)."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - beta_share(b, a, 1.0 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    fraction = d
    for m in range(1, 500):
        for numerator in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + numerator / c
            c = c if abs(c) > tiny else tiny
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return front * fraction


def f_beyond(f: float, between: float, within: float) -> float:
    """The chance that an F of these degrees of freedom is larger."""
    if between <= 0 or within <= 0 or not f > 0.0:
        return 1.0
    return beta_share(within / 2.0, between / 2.0, within / (within + between * f))


@cache
def t_quantile(share: float, freedom: int) -> float:
    """The value that Student's t of `freedom` degrees lies below in `share` (0.5 to 1) of all cases."""
    low, high = 0.0, 1.0
    while 1.0 - f_beyond(high * high, 1, freedom) / 2.0 < share and high < 1e9:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if 1.0 - f_beyond(middle * middle, 1, freedom) / 2.0 < share:
            low = middle
        else:
            high = middle
    return high


def share_bounds(held: int, of: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's bounds of a share: each holds with `level` by itself."""

    def root(target: float, a: float, b: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(100):
            middle = (low + high) / 2.0
            low, high = (middle, high) if beta_share(a, b, middle) < target else (low, middle)
        return (low + high) / 2.0

    lower = 0.0 if held == 0 else root(1.0 - level, held, of - held + 1)
    upper = 1.0 if held == of else root(level, held + 1, of - held)
    return lower, upper


def mean_interval(runs: int, total: int, squares: int, level: float = 0.95) -> tuple[float, float, float]:
    """Mean of whole numbers from their sums, with an interval; without one (NaN) below three runs."""
    mean = total / runs
    if runs < 3:
        return mean, math.nan, math.nan
    # Of whole numbers, so that nothing is lost before the one division.
    spread = math.sqrt((runs * squares - total * total) / (runs * (runs - 1)))
    half = t_quantile((1.0 + level) / 2.0, runs - 1) * spread / math.sqrt(runs)
    return mean, mean - half, mean + half


def signed_rank(differences: Sequence[float]) -> float:
    """Wilcoxon's p for "no difference", by its normal approximation; NaN below six pairs that differ."""
    unequal = [one for one in differences if one != 0.0]
    if len(unequal) < 6:
        return math.nan
    ranks = _ranks(np.abs(np.array(unequal)))
    n = len(unequal)
    above = float(sum(rank for rank, one in zip(ranks, unequal, strict=True) if one > 0))
    spread = math.sqrt(float((ranks**2).sum()) / 4.0)
    z = (abs(above - n * (n + 1) / 4.0) - 0.5) / spread
    return min(1.0, 2.0 * (1.0 - _NORMAL.cdf(z)))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1; equal values share theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2.0)[places]


def normal_scores(values: np.ndarray) -> np.ndarray:
    """Blom's scores: an outlier among machines decides no more than any other largest one."""
    shares = (_ranks(values) - 0.375) / (len(values) + 0.25)
    return np.array([_NORMAL.inv_cdf(share) for share in shares])


@dataclass
class Fact:
    """A fact over machines: for each value the share of each machine's runs that had it."""

    name: str
    values: list[str]
    shares: np.ndarray

    @property
    def design(self) -> np.ndarray:
        """Columns of a linear model; one value is left out, as the others say it."""
        return self.shares[:, 1:]


def facts_of(rows: Sequence[tuple], hosts: Sequence[str], runs: np.ndarray) -> tuple[list[Fact], dict[str, str]]:
    """Facts from rows (name, value, host, runs), and those that cannot be tested, with the reason."""
    place = {host: number for number, host in enumerate(hosts)}
    counted: dict[str, dict[str, np.ndarray]] = defaultdict(dict)
    for name, value, host, n in rows:
        if host in place:
            counted[name].setdefault(value, np.zeros(len(hosts)))[place[host]] += n
    facts, untested = [], {}
    for name, values in sorted(counted.items()):
        # A setting that is as wanted has no row, and a fact that was not read is a value as well.
        rest = runs - sum(values.values())
        if (rest > 0).any():
            values[AS_WANTED if name.startswith(SETTING) else UNREAD] = np.maximum(rest, 0)
        if name.startswith(SETTING) and len(values) - 1 > len(hosts) / 4:
            # A list of threads or interrupts differs on every machine; whether it is as wanted does not.
            wanted = values.pop(AS_WANTED, None)
            values = {NOT_AS_WANTED: sum(values.values())} | ({} if wanted is None else {AS_WANTED: wanted})
        shares = {value: n / runs for value, n in values.items()}
        rare = [value for value, share in shares.items() if share.sum() < FEWEST_MACHINES]
        kept = {value: share for value, share in shares.items() if value not in rare}
        if rare and kept:
            kept[rare[0] if len(rare) == 1 else f"{len(rare)} rare values"] = sum(shares[value] for value in rare)
        if len(kept) < 2:
            if len(rare) > 1:
                untested[name] = "nearly every machine has a value of its own"
        elif len(kept) - 1 > len(hosts) / 4:
            untested[name] = f"{len(kept)} values are too many for {len(hosts)} machines"
        else:
            facts.append(Fact(name, list(kept), np.column_stack(list(kept.values()))))
    return facts, untested


class Model:
    """A linear model of the machines' scores by facts."""

    def __init__(self, scores: np.ndarray):
        self.scores = scores
        self._known: dict[tuple[str, ...], tuple[float, int]] = {}

    def fit(self, facts: Sequence[Fact]) -> tuple[float, int]:
        """Sum of squares that is left, and rank."""
        key = tuple(sorted(fact.name for fact in facts))
        if key not in self._known:
            columns = [np.ones((len(self.scores), 1)), *(fact.design for fact in facts)]
            matrix = np.hstack(columns)
            solution, _, rank, _ = np.linalg.lstsq(matrix, self.scores, rcond=1e-9)
            left = self.scores - matrix @ solution
            self._known[key] = float(left @ left), int(rank)
        return self._known[key]

    def p(self, fact: Fact, given: Sequence[Fact]) -> float:
        """The chance of so large an effect of a fact, beyond those of others, if it had none."""
        if any(fact.name == one.name for one in given):
            return 1.0
        before, rank_before = self.fit(given)
        after, rank = self.fit([*given, fact])
        more, within = rank - rank_before, len(self.scores) - rank
        # Machines that are all alike leave nothing to explain.
        if more <= 0 or within <= 0 or before <= 0.0:
            return 1.0
        # A model that leaves nothing would divide by nothing.
        after = max(after, 1e-12 * float(self.scores @ self.scores))
        return f_beyond((before - after) / more / (after / within), more, within)

    def strongest(self, fact: Fact, given: Sequence[Fact]) -> np.ndarray:
        """Of the value of a fact that explains most by itself, beyond other facts: the share of each machine's runs that had it."""
        values = [Fact(f"{fact.name}={value}", [value], np.column_stack([1.0 - share, share])) for value, share in zip(fact.values, fact.shares.T, strict=True)]
        return min(values, key=lambda value: self.fit([*given, value])[0]).shares[:, 1]

    def share(self, fact: Fact, given: Sequence[Fact]) -> float:
        """Eta squared, partial: of what the others leave, the share that goes with a fact."""
        before, _ = self.fit(given)
        after, _ = self.fit([*given, fact])
        return 0.0 if before <= 0.0 else max(0.0, (before - after) / before)


@dataclass
class Group:
    """Facts that go with the tail, and cannot be told apart by these machines."""

    facts: list[Fact]
    p: float
    share: float
    given: list[str] = field(default_factory=list)


def explain(facts: Sequence[Fact], scores: np.ndarray) -> list[Group]:
    """Facts that separate machines, group by group: family-wise at FAMILY_WISE, facts that are not told apart as one group."""
    model = Model(scores)
    left, named, groups = list(facts), [], []
    while left:
        ps = {fact.name: model.p(fact, named) for fact in left}
        # Holm: the smallest of those that are left, times their number.
        best = min(left, key=lambda fact: ps[fact.name])
        level = FAMILY_WISE / len(left)
        if ps[best.name] > level:
            break
        significant = [fact for fact in left if ps[fact.name] <= level]
        best = _survivor(model, best, significant, named)
        tied = [best, *(fact for fact in significant if fact is not best and _is_tied(model, best, fact, named))]
        groups.append(Group(tied, ps[best.name], model.share(best, named), [fact.name for fact in named]))
        named += tied
        left = [fact for fact in left if all(fact is not one for one in tied)]
    return groups


def _survivor(model: Model, best: Fact, significant: Sequence[Fact], named: Sequence[Fact]) -> Fact:
    """The best one, unless it goes when another is known and the other does not."""
    for other in significant:
        if other is not best and _remains(model, other, best, named) and not _remains(model, best, other, named):
            return other
    return best


def _remains(model: Model, fact: Fact, other: Fact, named: Sequence[Fact]) -> bool:
    return model.p(fact, [*named, other]) <= FAMILY_WISE


def _is_tied(model: Model, one: Fact, other: Fact, named: Sequence[Fact]) -> bool:
    # The value by which one goes with the tail is on the same machines as a value of the other: no test holds one fixed and varies the
    # other, also where further values of one of them have an effect too.
    for a, b in ((one, other), (other, one)):
        strongest = model.strongest(a, named)
        if any(np.allclose(strongest, share) for share in b.shares.T):
            return True
    # Both remain: two effects, of which the second is found in a later step. One remains: the other only goes with it. None: tied.
    return not _remains(model, one, other, named) and not _remains(model, other, one, named)


def effect(fact: Fact, means_ppm: np.ndarray) -> list[tuple[str, float, float]]:
    """For each value: how many machines have it, and the ratio of their p99.9 to that of the others."""
    found = []
    for value, share in zip(fact.values, fact.shares.T, strict=True):
        others = 1.0 - share
        if share.sum() > 0 and others.sum() > 0:
            difference = (share @ means_ppm) / share.sum() - (others @ means_ppm) / others.sum()
            found.append((value, float(share.sum()), math.exp(difference / 1e6)))
    return sorted(found, key=lambda one: -one[2])


@dataclass
class Change:
    """The best split of a machine's runs."""

    host: str
    first: int
    end: int
    after: int
    step_ppm: float
    p: float
    named: bool = False


def changes(hosts: np.ndarray, y: np.ndarray) -> list[Change]:
    """The best split of each machine's runs, which are sorted by machine and time; `named` where the machine changed."""
    found = []
    starts = np.flatnonzero(np.r_[True, hosts[1:] != hosts[:-1]])
    for first, end in zip(starts, np.r_[starts[1:], len(hosts)], strict=True):
        m = int(end - first)
        if m >= 2 * FEWEST_BESIDE:
            after, step, f = _best_split(y[first:end])
            # Of all places the best one: bounded by their number times the chance of one.
            p = min(1.0, (m - 2 * FEWEST_BESIDE + 1) * f_beyond(f, 1, m - 2))
            found.append(Change(str(hosts[first]), int(first), int(end), after, step, p))
    found.sort(key=lambda change: change.p)
    last = 0
    for rank, change in enumerate(found, 1):
        if change.p <= FALSE_SHARE * rank / len(found):
            last = rank
    for change in found[:last]:
        change.named = True
    return found


def _best_split(y: np.ndarray) -> tuple[int, float, float]:
    m = len(y)
    centred = y - y.mean()
    total = float(centred @ centred)
    if total <= 0.0:
        return FEWEST_BESIDE, 0.0, 0.0
    i = np.arange(FEWEST_BESIDE, m - FEWEST_BESIDE + 1)
    left = np.cumsum(centred)[i - 1]
    between = left * left * m / (i * (m - i))
    best = int(np.argmax(between))
    within = max(total - float(between[best]), 1e-12 * total)
    step = -left[best] * m / (i[best] * (m - i[best]))
    return int(i[best]), float(step), float(between[best]) / (within / (m - 2))


class WithinMachines:
    """Effects of facts that changed on machines, from the runs of each machine before and after, all machines together."""

    def __init__(self, hosts: np.ndarray, y: np.ndarray, facts: dict[str, np.ndarray]):
        self.hosts, self.y = hosts, y
        _, self._places, self._sizes = np.unique(hosts, return_inverse=True, return_counts=True)
        self._columns = {name: self._indicators(values) for name, values in facts.items()}

    @staticmethod
    def _indicators(values: np.ndarray) -> list[np.ndarray]:
        # The most frequent value is what the others are compared with.
        known, counts = np.unique(values, return_counts=True)
        return [(values == value).astype(float) for value in known[np.argsort(-counts)][1:]]

    def _within(self, column: np.ndarray) -> np.ndarray:
        return column - (np.bincount(self._places, column) / self._sizes)[self._places]

    @cached_property
    def _effects(self) -> list[tuple[str, np.ndarray, float]]:
        """Each value of a fact as a column, and its effect."""
        columns = [(name, column) for name, of_fact in self._columns.items() for column in of_fact]
        if not columns:
            return []
        matrix = np.column_stack([self._within(column) for _, column in columns])
        solution, *_ = np.linalg.lstsq(matrix, self._within(self.y), rcond=1e-9)
        return [(name, column, effect) for (name, column), effect in zip(columns, solution.tolist(), strict=True)]

    def without_facts(self) -> np.ndarray:
        """The runs without these effects."""
        return self.y - sum(column * effect for _, column, effect in self._effects)

    def sizes(self) -> dict[str, float]:
        """How far the values of each fact are apart, in the unit of the runs."""
        effects: dict[str, list[float]] = {name: [0.0] for name in self._columns}
        for name, _, effect in self._effects:
            effects[name].append(effect)
        return {name: max(of_fact) - min(of_fact) for name, of_fact in effects.items()}


def is_split_beyond(y: np.ndarray, after: int, values: np.ndarray) -> bool:
    """Whether a machine's change is more than what came with a fact, whatever that did on this machine."""
    segments = np.column_stack([values == value for value in np.unique(values)]).astype(float)
    split = (np.arange(len(y)) >= after).astype(float)[:, None]

    def left(matrix: np.ndarray) -> tuple[float, int]:
        solution, _, rank, _ = np.linalg.lstsq(matrix, y, rcond=1e-9)
        rest = y - matrix @ solution
        return float(rest @ rest), int(rank)

    (before, rank_before), (beyond, rank) = left(segments), left(np.hstack([segments, split]))
    within = len(y) - rank
    if rank == rank_before or within <= 0:
        return False
    return len(y) * f_beyond((before - beyond) / (max(beyond, 1e-9) / within), 1, within) <= FALSE_SHARE

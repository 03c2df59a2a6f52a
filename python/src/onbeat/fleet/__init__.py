"""Questions about the runs of many machines, which `onbeat fleet add` has collected.

- `Fleet("/srv/fleet").worst()`: machines by their tail, with intervals
- `.gate(100_000, at=99.9)`: the share of the machines that hold a limit, with a bound
- `.compare("kernel=A", "kernel=B")`: two groups of runs, machine by machine
- `.explain()`, `.drift()`, `.causes("kernel")`: what goes with the tail, which machines changed, why they were late
- `.percentiles()`: exact, of all samples together

Each returns an object with the attributes `title`, `rows` (dictionaries), `sentences`, `queries` (the SQL) and `outcome`. The engine is DuckDB;
the SQL runs unchanged on Apache Spark.
"""

from .data_set import DataSet
from .errors import FleetError
from .questions import Answer, Fleet

__all__ = ["Answer", "DataSet", "Fleet", "FleetError"]

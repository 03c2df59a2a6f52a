"""Asks the SQL of all questions of DuckDB and of Apache Spark, and compares the rows to the last digit.

usage: spark_equal.py DIR   prints the differences of each query as JSON. Two executors, each a process of its own.
"""

import json
import sys
import time

from pyspark.sql import SparkSession

from onbeat.fleet import DataSet
from onbeat.fleet.data_set import TABLES, Listing, Selection, sql

MASTER = "local-cluster[2,1,1024]"


def queries(chosen: Selection) -> dict[str, str]:
    """The text of every query, with something asked in each of its places."""
    facts = chosen.fleet.rows("SELECT name, value, COUNT(DISTINCT host) FROM facts GROUP BY 1, 2 HAVING COUNT(DISTINCT host) > 1 ORDER BY 3 DESC, 1, 2")
    changed = [row[:2] for row in facts if row[0] in ("image", "kernel")] or [row[:2] for row in facts]
    first, second = (f"{name}={value}" for name, value in (changed * 2)[:2])
    places = {"limit_ns": "100000", "most_ns": "-1", "counted": quoted(chosen.series), "percentile": "p999_ns"}
    places |= {"values": chosen.values("kernel")[1], "first": chosen.condition(first), "second": chosen.condition(second)}
    names = ["cell_types", "worst", "gate", "gate_exact", "compare", "compare_facts", "explain", "drift", "drift_facts", "causes", "causes_of",
             "percentiles", "percentiles_together", "left_out", "report"]
    assert all(sql(name) for name in names)
    return {name: chosen.query(name, **places) for name in names}


def views(spark: SparkSession, fleet: DataSet) -> None:
    """The same files as the views of DuckDB."""
    listing = Listing(fleet.path, fleet.connection)
    assert not listing.replaced, "pack first: Spark reads whole files"
    types = {"text": "STRING", "whole": "BIGINT", "flag": "BOOLEAN"}
    for table, columns in TABLES.items():
        files = listing.packed[table] + listing.landed[table]
        schema = ", ".join(f"{name} {types[kind]}" for name, kind in columns.items())
        frame = spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)
        frame.createOrReplaceTempView(table)


def main(path: str) -> int:
    fleet = DataSet(path)
    spark = SparkSession.builder.master(MASTER).config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    views(spark, fleet)
    found, differences = {}, 0
    for name, query in queries(Selection(fleet)).items():
        before = time.monotonic()
        of_spark = [tuple(row) for row in spark.sql(query).collect()]
        took = time.monotonic() - before
        of_duckdb = fleet.rows(query)
        unequal = abs(len(of_spark) - len(of_duckdb)) + sum(a != b for a, b in zip(of_spark, of_duckdb))
        differences += unequal
        found[name] = {"rows": len(of_duckdb), "differences": unequal, "spark_s": round(took, 1)}
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    print(json.dumps({"executors": executors, "differences": differences, "queries": found}))
    spark.stop()
    return 1 if differences else 0


sys.exit(main(*sys.argv[1:]))

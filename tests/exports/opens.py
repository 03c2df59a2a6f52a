"""Opens exports with libraries that know nothing of onbeat, and prints what they hold as one JSON object.

usage: opens.py parquet|openmetrics|junit|csv|summary FILE
"""

import csv
import json
import os
import sys
import xml.etree.ElementTree as ElementTree


def parquet(path):
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)
    table = file.read()
    table.validate(full=True)
    columns = table.to_pydict()
    return {
        "rows": table.num_rows,
        "groups": file.num_row_groups,
        "types": {field.name: str(field.type) for field in table.schema},
        "series": sorted(set(columns["series"])),
        "loads": sorted(set(columns["load"])),
        "samples": sum(columns["count"]),
        "lowest": min(columns["low_ns"]),
        "highest": max(columns["high_ns"]),
        "last_t": max(columns["t_s"]),
    }


def openmetrics(path):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    with open(path, encoding="utf-8") as file:
        families = list(text_string_to_metric_families(file.read()))
    found = {}
    for family in families:
        of = lambda *endings: sum(sample.value for sample in family.samples if sample.name.endswith(endings))
        found[family.name] = {"type": family.type, "unit": family.unit, "count": of("_count", "_total"), "sum": of("_sum")}
    return found


def junit(path):
    root = ElementTree.parse(path).getroot()
    assert root.tag == "testsuites", root.tag
    cases = []
    for suite in root:
        assert suite.tag == "testsuite" and suite.get("name"), suite.attrib
        of_suite = suite.findall("testcase")
        outcomes = {"failure": 0, "error": 0}
        for case in of_suite:
            assert case.get("name") and case.get("classname"), case.attrib
            assert float(case.get("time")) >= 0
            kinds = [child.tag for child in case if child.tag in outcomes]
            assert len(kinds) <= 1, kinds
            for child in case:
                if child.tag in outcomes:
                    assert child.get("message") and child.get("type") and child.text
                    outcomes[child.tag] += 1
            cases.append(kinds[0] if kinds else "passed")
        assert int(suite.get("tests")) == len(of_suite)
        assert int(suite.get("failures")) == outcomes["failure"]
        assert int(suite.get("errors")) == outcomes["error"]
        assert int(suite.get("skipped")) == 0 and float(suite.get("time")) >= 0
    return {"cases": cases}


def comma_separated(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert all(None not in row and None not in row.values() for row in rows)
    return {"rows": len(rows), "samples": sum(int(row["count"]) for row in rows), "tunings": sorted({row["tuning"] for row in rows})}


def strict(schema):
    """The schema with nothing permitted that it does not name."""
    if isinstance(schema, dict):
        schema = {name: strict(part) for name, part in schema.items()}
        if "properties" in schema and "additionalProperties" not in schema:
            schema["additionalProperties"] = False
        return schema
    return [strict(part) for part in schema] if isinstance(schema, list) else schema


def broken(value):
    """Copies of a document with one fault each: a required field less, or of another type."""
    for name in value:
        yield {other: value[other] for other in value if other != name}
        yield {**value, name: [] if isinstance(value[name], dict) else {"unlike": name}}
    for name in ("verdict", "limit"):
        if isinstance(value.get(name), dict):
            yield {**value, name: {**value[name], "outcome": "PERHAPS", "at": "most"}}
    for cell in value["cells"][:1]:
        for name in ("tuning", "slots", "series", "spikes"):
            yield {**value, "cells": [{**cell, name: None}]}


def summary(path):
    from jsonschema import Draft202012Validator

    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    kind = found["schema"].removeprefix("onbeat.").removesuffix("/1")
    folder = os.path.join(os.path.dirname(__file__), "../../docs/schema")
    schemas = {}
    for name in ("bench", "measure"):
        with open(os.path.join(folder, f"{name}.json"), encoding="utf-8") as file:
            schemas[name] = json.load(file)
        Draft202012Validator.check_schema(schemas[name])
    own, exact = (Draft202012Validator(schema) for schema in (schemas[kind], strict(schemas[kind])))
    optional = set(schemas[kind]["properties"]) - set(schemas[kind]["required"])
    faults = [fault for fault in broken(found)]
    # Without an optional field a document is as good as before.
    passed = [fault for fault in faults if own.is_valid(fault)]
    missed = [fault for fault in passed if not (set(found) - set(fault)) & optional]
    other = Draft202012Validator(schemas["measure" if kind == "bench" else "bench"])
    return {
        "schema": found["schema"],
        "errors": [f"{list(error.absolute_path)}: {error.message[:300]}" for error in exact.iter_errors(found)],
        "faults": len(faults),
        "missed": len(missed),
        "is_of_other": other.is_valid(found),
        "differ": sorted(
            name
            for name in schemas["bench"]
            if schemas["bench"][name] != schemas["measure"].get(name) and name != "properties"
        ),
    }


KINDS = {"parquet": parquet, "openmetrics": openmetrics, "junit": junit, "csv": comma_separated, "summary": summary}
print(json.dumps(KINDS[sys.argv[1]](sys.argv[2])))

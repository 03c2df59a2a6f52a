"""Opens exports with libraries that know nothing of onbeat, and prints what they hold as one JSON object.

usage: opens.py parquet|openmetrics|junit|csv FILE
"""

import csv
import json
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


KINDS = {"parquet": parquet, "openmetrics": openmetrics, "junit": junit, "csv": comma_separated}
print(json.dumps(KINDS[sys.argv[1]](sys.argv[2])))

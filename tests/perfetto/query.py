"""Queries a trace with Perfetto's Python package and a trace processor that listens on 127.0.0.1.

usage: query.py PORT TRACE, one SQL query per line of standard input; prints one line of JSON per query: a list of rows.
"""
import json
import sys

from perfetto.trace_processor import TraceProcessor

port, trace = sys.argv[1:]
with TraceProcessor(trace=trace, addr=f"127.0.0.1:{port}") as processor:
    for query in sys.stdin:
        rows = processor.query(query)
        print(json.dumps([[row.__dict__[name] for name in rows.column_names] for row in rows]))

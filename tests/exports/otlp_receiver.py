"""A collector that takes OTLP over HTTP, decoded by OpenTelemetry's own library: each request is a line of JSON.

usage: otlp_receiver.py REFUSED   answers that many requests with 503 first; prints its port, then lines; ends with its standard input
"""

import http.server
import json
import os
import sys
import threading

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest, ExportMetricsServiceResponse

refused = int(sys.argv[1])


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        global refused
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if refused > 0:
            refused -= 1
            self.answer(503, b"")
            return
        request = ExportMetricsServiceRequest()
        # Every byte is understood: what is not would be kept as an unknown field.
        request.ParseFromString(body)
        known = ExportMetricsServiceRequest()
        known.CopyFrom(request)
        known.DiscardUnknownFields()
        found = {
            "path": self.path,
            "type": self.headers["Content-Type"],
            "agent": self.headers["User-Agent"],
            "is_known": known.SerializeToString(deterministic=True) == request.SerializeToString(deterministic=True),
            "request": MessageToDict(request),
        }
        print(json.dumps(found), flush=True)
        self.answer(200, ExportMetricsServiceResponse().SerializeToString())

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)

#!/bin/sh
# botocore 1.44.8, a response that ends before its Content-Length, as behind a proxy that restarts.
#
# Expected: an error of the network, which its retries repeat. Seen on 2026-11-27: the client asks
# urllib3 not to enforce the length, so the half counts as the response. Of a JSON API it returns a
# response without fields (a schedule with neither name nor state, no error); of EC2's XML it raises
# ResponseParserError, which is not a BotoCoreError, and is not repeated.
#
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/cut.py" <<'PY'
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import boto3
import botocore
from botocore.exceptions import BotoCoreError
from botocore.parsers import ResponseParserError

requests = []


class Cut(BaseHTTPRequestHandler):
    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        requests.append(self.path)
        body = b'{"Name": "stop", "State": "ENABLED"}' if self.command == "GET" else b"<Describe/>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:9])
        self.close_connection = True

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Cut)
threading.Thread(target=server.serve_forever, daemon=True).start()
session = boto3.Session("key", "secret", region_name="us-east-1")
address = f"http://127.0.0.1:{server.server_port}"
schedule = session.client("scheduler", endpoint_url=address).get_schedule(Name="stop")
schedule.pop("ResponseMetadata")
try:
    session.client("ec2", endpoint_url=address).describe_instances()
    raised = None
except Exception as error:
    raised = error
print(botocore.__version__, schedule, type(raised).__name__, len(requests), "requests")
is_parser = isinstance(raised, ResponseParserError) and not isinstance(raised, BotoCoreError)
sys.exit(schedule.get("State") is not None or not is_parser or len(requests) != 2)
PY
python3 -m venv "$work/env"
"$work/env/bin/pip" install --quiet boto3==1.44.8
"$work/env/bin/python" "$work/cut.py"

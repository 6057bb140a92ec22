#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A forward proxy: CONNECT, and plain HTTP by absolute URL. One log line a request: METHOD TARGET STATUS.

With --user every request needs these credentials (Basic), else 407.
"""
import argparse
import base64
import select
import socket
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP = {"connection", "proxy-authorization", "proxy-connection", "keep-alive", "transfer-encoding"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):
        pass

    def end(self, status):
        """A reply of the proxy's own."""
        print(self.command, self.path, status, flush=True)
        self.send_response_only(status)
        if status == 407:
            self.send_header("Proxy-Authenticate", 'Basic realm="proxy"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def refused(self):
        right = "Basic " + base64.b64encode((OPTIONS.user or "").encode()).decode()
        if OPTIONS.user is None or self.headers.get("Proxy-Authorization") == right:
            return False
        self.end(407)
        return True

    def do_CONNECT(self):
        if self.refused():
            return
        host, port = self.path.rsplit(":", 1)
        try:
            server = socket.create_connection((host.strip("[]"), int(port)), 5)
        except OSError:
            self.end(502)
            return
        print("CONNECT", self.path, 200, flush=True)
        self.send_response_only(200)
        self.end_headers()
        self.close_connection = True
        ends = {self.connection: server, server: self.connection}
        while True:
            for ready in select.select(list(ends), [], [], 60)[0] or [None]:
                data = ready.recv(65536) if ready else b""
                if not data:
                    server.close()
                    return
                ends[ready].sendall(data)

    def forward(self):
        if self.refused():
            return
        url = urlsplit(self.path)
        if url.scheme != "http":
            self.end(400)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP}
        server = HTTPConnection(url.hostname, url.port or 80, timeout=60)
        try:
            server.request(self.command, url._replace(scheme="", netloc="").geturl(), body, headers)
            reply = server.getresponse()
        except OSError:
            self.end(502)
            return
        print(self.command, self.path, reply.status, flush=True)
        self.send_response_only(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in HOP:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        while data := reply.read1(65536):
            self.wfile.write(data)
        server.close()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = forward


parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--user", help="NAME:PASSWORD")
OPTIONS = parser.parse_args()
ThreadingHTTPServer(("127.0.0.1", OPTIONS.port), Handler).serve_forever()

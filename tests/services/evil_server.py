#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A layout directory as a static repository, http://HOST/MODE, and as a registry, http://HOST/v2/MODE/..., that
misbehaves as MODE says. What follows a dot in MODE is ignored, but modes that count do so for each whole name.

  every request   401 403 404 429 500 503 (429: Retry-After: 1)   500x2: each path twice, then fine   auth: needs --user
                  html: a page with 200   mute: no reply   stall: headers, then silence   bighead: 1 MiB of header
                  loop: redirect to itself   file: redirect to file:///etc/hostname
  index, tag      huge: 100 MB   endless: without length, until the client goes
  documents       flip-manifest, flip-config: one bit is wrong
  the layer       flip   short: its end is missing, and the length says so   long: more than there should be
                  endless-layer   cut: the connection ends after each 256 KiB   cut0: before the first byte
                  cut1: after half, once   norange, r416, badrange: cut1; then a Range is ignored, is answered with 416,
                  gives bytes from 0 on   stall-body: silence after half   stall1: the same, once   drip: 512 KiB/s
  every blob      redirect, auth-redirect: to --other, where nothing is asked for

Log: PORT METHOD PATH STATUS range=RANGE auth=SCHEME, before the first byte of the reply is sent.
"""
import argparse
import base64
import collections
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from served import MANIFEST, Served

COUNTS, LOCK = collections.Counter(), threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):
        pass

    def start(self, status, length, headers=()):
        print(self.server.server_port, self.command, self.path, status, "range=" + self.headers.get("Range", "-"),
              "auth=" + self.headers.get("Authorization", "none").split(" ")[0].lower(), flush=True)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if length is None:
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def answer(self, status, body=b"no\n", headers=()):
        self.start(status, len(body), headers)
        if self.command != "HEAD":
            self.wfile.write(body)

    def flood(self, length):
        self.start(200, length, [("Content-Type", MANIFEST)])
        left = length or 1 << 40
        while left > 0:
            left -= self.wfile.write(b'{"a": "' + b"x" * min(left, 1 << 20))

    def silence(self):
        self.close_connection = True
        time.sleep(120)

    def first(self, name, times=1):
        with LOCK:
            COUNTS[name] += 1
            return COUNTS[name] <= times

    def send_blob(self, mode, kind, data, name):
        """One document or blob; the modes that damage or cut it."""
        asked, begin = self.headers.get("Range"), 0
        if mode == "flip" and kind == "layer" or mode == "flip-" + kind:
            data = data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1:]
        if kind == "layer":
            data = data[:-1000] if mode == "short" else data + b"x" * 5000 if mode == "long" else data
        if asked and mode != "norange":
            begin = int(asked.split("=")[1].split("-")[0])
            if mode == "r416" or begin >= len(data):
                return self.answer(416, headers=[("Content-Range", "bytes */%d" % len(data))])
            begin = 0 if mode == "badrange" else begin
            self.start(206, len(data) - begin, [("Content-Range", "bytes %d-%d/%d" % (begin, len(data) - 1, len(data)))])
        else:
            self.start(200, len(data), [("Accept-Ranges", "bytes"), ("Content-Type", self.media)])
        if self.command == "HEAD":
            return None
        once = mode in ("cut1", "norange", "r416", "badrange", "stall1")
        left, silent = len(data) - begin, mode in ("stall-body", "stall1")
        if kind == "layer" and (silent or mode in ("cut", "cut0") or once) and (not once or self.first(name)):
            cut = {"cut": min(left, 256 << 10), "cut0": 0}.get(mode, left // 2)
            self.wfile.write(data[begin:begin + cut])
            self.close_connection = True
            return self.silence() if silent else None
        step = 32 << 10 if mode == "drip" and kind == "layer" else len(data)
        for at in range(begin, len(data), step):
            self.wfile.write(data[at:at + step])
            time.sleep(1 / 16 if step < len(data) else 0)
        return None

    def do_GET(self):
        if self.path.rstrip("/") == "/v2":
            return self.answer(200, b"{}")
        name, kind, file, self.media = Served(OPTIONS.layout).lookup(self.path)
        mode, key = name.split(".")[0], name + " " + self.path
        if self.server.server_port == OPTIONS.other:
            mode = "ok"
        right = "Basic " + base64.b64encode(OPTIONS.user.encode()).decode()
        if mode.startswith("auth") and self.headers.get("Authorization") != right:
            return self.answer(401, headers=[("WWW-Authenticate", 'Basic realm="tests"')])
        if mode.isdigit():
            more = {"401": [("WWW-Authenticate", 'Basic realm="tests"')], "429": [("Retry-After", "1")]}
            return self.answer(int(mode), headers=more.get(mode, []))
        if mode == "500x2" and self.first(key, 2):
            return self.answer(500)
        if mode == "html":
            return self.answer(200, b"<!DOCTYPE html><title>Sign in</title>", [("Content-Type", "text/html")])
        if mode in ("mute", "stall"):
            if mode == "stall":
                self.start(200, 1000)
            return self.silence()
        if mode in ("huge", "endless") and kind in ("index", "tag") or mode == "endless-layer" and kind == "layer":
            return self.flood(100 << 20 if mode == "huge" else None)
        if mode == "loop" or mode == "file":
            return self.answer(307, headers=[("Location", self.path if mode == "loop" else "file:///etc/hostname")])
        if mode.endswith("redirect") and "/blobs/" in self.path:
            return self.answer(307, headers=[("Location", "http://127.0.0.1:%d%s" % (OPTIONS.other, self.path))])
        if file is None:
            return self.answer(404)
        if mode == "bighead":
            return self.answer(200, headers=[("X-Big-%d" % i, "x" * 60000) for i in range(18)])
        return self.send_blob(mode, kind, open(file, "rb").read(), key)

    do_HEAD = do_GET

    def handle(self):
        try:
            super().handle()
        except OSError:
            pass  # the client went away


parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--other", type=int, required=True, help="a second port, where redirects go")
parser.add_argument("--user", required=True, help="NAME:PASSWORD")
parser.add_argument("layout")
OPTIONS = parser.parse_args()
for server in [ThreadingHTTPServer(("127.0.0.1", port), Handler) for port in (OPTIONS.other, OPTIONS.port)]:
    threading.Thread(target=server.serve_forever).start()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the API server, which only reads: over HTTPS, the file DIR/PATH as JSON.

It reviews tokens, too: good-NAME is NAME's, who may do everything; each one is a line of DIR/reviews. While DIR/silent is
there, it accepts and says nothing.

kube_standin.py PORT CERTIFICATE KEY DIR"""
import functools
import http.server
import json
import os
import ssl
import sys
import time


class Handler(http.server.SimpleHTTPRequestHandler):
    def guess_type(self, path):
        return "application/json"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        token = asked["spec"].get("token", "")
        if token:
            with open(self.directory + "/reviews", "a", encoding="utf-8") as file:
                print(token, file=file)
        while os.path.exists(self.directory + "/silent"):
            time.sleep(0.05)
        is_good = token.startswith("good-")
        asked["status"] = {"authenticated": is_good, "allowed": True, "user": {"username": token[5:]} if is_good else {}}
        body = json.dumps(asked).encode()
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


port, certificate, key, directory = sys.argv[1:]
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), functools.partial(Handler, directory=directory))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()

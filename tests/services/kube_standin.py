#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the API server, which only reads: over HTTPS, the file DIR/PATH as JSON.

kube_standin.py PORT CERTIFICATE KEY DIR"""
import functools
import http.server
import ssl
import sys


class Handler(http.server.SimpleHTTPRequestHandler):
    def guess_type(self, path):
        return "application/json"


port, certificate, key, directory = sys.argv[1:]
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), functools.partial(Handler, directory=directory))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The token endpoint of a registry, as in the distribution specification: GET /token?service=S&scope=repository:N:A.

Credentials (Basic) of --user give all actions asked for. Without credentials there is pull with --anonymous-pull, else
a token that allows nothing. Wrong credentials are 401. Tokens are JWT, RS256, signed with openssl. The log has one line
a request: who asked and for what, never a secret.
"""
import argparse
import base64
import json
import subprocess
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(claims):
    pem = open(OPTIONS.certificate, encoding="ascii").read()
    header = {"typ": "JWT", "alg": "RS256", "x5c": ["".join(pem.split("\n")[1:-2])]}
    text = b64(json.dumps(header).encode()) + "." + b64(json.dumps(claims).encode())
    sign = ["openssl", "dgst", "-sha256", "-sign", OPTIONS.key]
    return text + "." + b64(subprocess.run(sign, input=text.encode(), stdout=subprocess.PIPE, check=True).stdout)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):
        pass

    def reply(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        query = parse_qs(urlsplit(self.path).query)
        scopes = [s for text in query.get("scope", []) for s in text.split(" ")]
        given = self.headers.get("Authorization")
        right = "Basic " + base64.b64encode(OPTIONS.user.encode()).decode()
        who = "anonymous" if given is None else "user" if given == right else "stranger"
        print("token", who, query.get("service", [""])[0], *scopes, flush=True)
        if who == "stranger":
            return self.reply(401, {"errors": [{"code": "UNAUTHORIZED"}]})
        access = []
        for scope in scopes:
            kind, rest = scope.split(":", 1)
            name, actions = rest.rsplit(":", 1)
            wanted = actions.split(",")
            if who == "anonymous":
                wanted = [a for a in wanted if a == "pull" and OPTIONS.anonymous_pull]
            access.append({"type": kind, "name": name, "actions": wanted})
        now = int(time.time())
        claims = {"iss": "tests", "sub": who, "aud": query.get("service", ["tests"])[0], "jti": str(time.time_ns()),
                  "iat": now - 5, "nbf": now - 5, "exp": now + OPTIONS.lifetime, "access": access}
        return self.reply(200, {OPTIONS.field: signed(claims), "expires_in": OPTIONS.lifetime})


parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--key", required=True)
parser.add_argument("--certificate", required=True)
parser.add_argument("--user", required=True, help="NAME:PASSWORD")
parser.add_argument("--anonymous-pull", action="store_true")
parser.add_argument("--field", default="token", choices=["token", "access_token"], help="where the reply has the token")
parser.add_argument("--lifetime", type=int, default=300, help="seconds")
OPTIONS = parser.parse_args()
ThreadingHTTPServer(("127.0.0.1", OPTIONS.port), Handler).serve_forever()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A user of the coordinator's page in headless Chromium, which is driven over its DevTools protocol: types a token into the login,
presses Enter, waits until the page shows WORDS, and takes a picture. Prints the page's text before and after the login, with a line
"--" between. (By Debian's python3, for whose version python3-websocket is.)
Usage: browse.py URL TOKEN-FILE WORDS PICTURE.png PROFILE-DIRECTORY"""
import base64
import json
import os
import subprocess
import sys
import time
import urllib.request

import websocket

SECONDS = 120  # after which something hangs, however busy the machine is


def until(what, condition):
    """What the condition gives, once that is true."""
    end = time.monotonic() + SECONDS
    while not (found := condition()):
        if time.monotonic() > end:
            sys.exit(f"not within {SECONDS} s: {what}")
        time.sleep(0.2)
    return found


class Tab:
    """One page of the browser."""

    def __init__(self, address):
        self.socket, self.count = websocket.create_connection(address, timeout=SECONDS, suppress_origin=True), 0

    def ask(self, method, **parameters):
        self.count += 1
        self.socket.send(json.dumps({"id": self.count, "method": method, "params": parameters}))
        while (reply := json.loads(self.socket.recv())).get("id") != self.count:
            pass  # events
        if "error" in reply:
            sys.exit(f"{method}: {reply['error']}")
        return reply["result"]

    def value(self, expression):
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def text(self):
        return self.value("document.body ? document.body.innerText : ''")


def port_of(profile):
    """Where the browser listens: it writes that down."""
    try:
        with open(f"{profile}/DevToolsActivePort", encoding="utf-8") as file:
            return file.readline().strip()
    except FileNotFoundError:
        return ""


def visit(tab, url, token, words, picture):
    tab.ask("Emulation.setDeviceMetricsOverride", width=1000, height=560, deviceScaleFactor=1, mobile=False)
    tab.ask("Page.navigate", url=url)
    until("the login", lambda: tab.value("document.getElementById('login')?.hidden === false"))
    print(tab.text(), "--", sep="\n")
    tab.value("document.getElementById('token').focus()")
    tab.ask("Input.insertText", text=token)
    for kind in ("keyDown", "keyUp"):
        tab.ask("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    until(f"'{words}' on the page, which is:\n{tab.text()}", lambda: words in tab.text())
    if tab.value("document.getElementById('login').hidden") is not True:
        sys.exit("the login is still there")
    print(tab.text())
    with open(picture, "wb") as file:
        file.write(base64.b64decode(tab.ask("Page.captureScreenshot", format="png")["data"]))


def main():
    url, token_file, words, picture, profile = sys.argv[1:]
    os.makedirs(profile)
    with open(token_file, encoding="utf-8") as file, open(f"{profile}/log", "wb") as log, subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server",
             f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"], stdout=log, stderr=log) as browser:
        try:
            port = until("a browser", lambda: browser.poll() is None and port_of(profile))
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://127.0.0.1:{port}/json/list", timeout=SECONDS) as reply:
                tabs = [tab for tab in json.load(reply) if tab["type"] == "page"]
            visit(Tab(tabs[0]["webSocketDebuggerUrl"]), url, file.read().strip(), words, picture)
        finally:
            browser.terminate()


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers what shim's MokManager asks at the boot after a request, as somebody at the keyboard would: the request is confirmed
with its password. Each key is sent once the screen shows what it is for.

mok_screen.py CONSOLE MONITOR PASSWORD   CONSOLE is the file with the machine's console, MONITOR the socket of QEMU's monitor
"""
import re
import socket
import sys
import time

CONSOLE, MONITOR, PASSWORD = sys.argv[1:]
NAMES = {" ": "spc", "-": "minus", ".": "dot", "/": "slash", "_": "shift-minus"}


class Screen:
    """What was drawn, as text without the terminal's escape sequences; read up to .at"""

    def __init__(self):
        with open(CONSOLE, "rb") as file:
            self.start = len(file.read())
        self.at = 0

    def text(self):
        with open(CONSOLE, "rb") as file:
            drawn = file.read()[self.start :]
        return re.sub(rb"\x1b\[[0-9;=?]*[A-Za-z]", b"", drawn).decode("ascii", "replace")

    def wait(self, pattern):
        while not (found := re.search(pattern, self.text()[self.at :], re.DOTALL)):
            time.sleep(0.2)
        self.at += found.end()
        return found.group()


def press(monitor, *keys):
    for key in keys:
        monitor.sendall(f"sendkey {key} 50\n".encode())
        time.sleep(0.4)  # as fast as the firmware asks the keyboard


def key_of(char):
    return NAMES.get(char) or (f"shift-{char.lower()}" if char.isupper() else char)


def main():
    screen = Screen()
    with socket.socket(socket.AF_UNIX) as monitor:
        while True:
            try:
                monitor.connect(MONITOR)
                break
            except OSError:
                time.sleep(0.1)
        screen.wait("Press any key to perform MOK management")
        press(monitor, "ret")
        screen.wait("Enroll MOK.*Enroll hash from disk")
        press(monitor, "down", "ret")
        keys = screen.wait("View key 0.*Continue").count("View key")
        press(monitor, *["down"] * keys, "ret")
        screen.wait(r"Enroll the key\(s\)\?.*Yes")
        press(monitor, "down", "ret")
        screen.wait("Password:")
        press(monitor, *[key_of(char) for char in PASSWORD], "ret")
        screen.wait("Reboot.*Enroll")
        monitor.sendall(b"sendkey ret 50\n")
        while monitor.recv(4096):  # until the machine has ended; who hangs up first takes the key along
            pass


main()

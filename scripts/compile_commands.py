#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write compile_commands.json, for clangd and other tools that read C: `make compile_commands.json`.

  scripts/compile_commands.py COMPILER FLAG...    to standard output
"""
import glob
import json
import os
import sys

FILES = ("installer/**/*.c", "kmod/**/*.c", "precompiled/**/*.c", "tests/unit/*.c", "tests/sim/*.c", "tests/fuzz/*.c",
         "tests/bench/*.c", "tests/cluster/*.c")

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
files = sorted(path for pattern in FILES for path in glob.glob(pattern, recursive=True))
json.dump([{"directory": os.getcwd(), "file": path, "arguments": [*sys.argv[1:], "-c", path]} for path in files],
          sys.stdout, indent=1)
print()

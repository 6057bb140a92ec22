#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands that pages show: pages.py list|values FILE... | pages.py wrong TOP FILE...

list: each call of kmodsmith, one a line: FILE:LINE, "block" or "text", its words, quoted for the shell; between tabs. In blocks of
commands (indented by four columns, or fenced), behind `kubectl exec POD --` and the like; and in the text between `backquotes`.
values: the values that each call of helm gives to our chart, as options, quoted for the shell.
wrong: what other programs are told and is not so: files and objects of deploy/, values of the chart, targets of make,
arguments of images/Containerfile.
"""
import glob, json, os, re, shlex, sys

OUR = re.compile(r"(.*/)?kmodsmith$")
RUNNERS = {"sudo", "strace", "gdb", "kubectl", "podman", "docker", "timeout"}


def blocks(path):
    """(line, kind, text) of each command, continued lines joined; and of each `kmodsmith ...` in the text."""
    manual, fenced, held, first = path.endswith(".scd"), False, "", 0
    for number, line in enumerate(open(path), 1):
        line = line.rstrip("\n")
        if line.startswith("```"):
            fenced, held = not fenced, ""
            continue
        block = line[4:] if line.startswith("    ") and not manual else line if fenced else None
        if block is None:
            held = ""
            if not manual:
                yield from ((number, "text", text) for text in re.findall(r"`(kmodsmith [^`]+)`", line))
            continue
        block = re.sub(r"^[#$] (?=kmodsmith |build/)", "", block.replace("\\\\", "\\") if manual else block)
        first = first if held else number
        held += block
        if held.endswith("\\"):
            held = held[:-1] + " "
        elif held.rstrip().endswith(("|", "&&")):
            held += " "
        elif words(held) is None:
            held += "\n"  # a quoted text of several lines
        else:
            yield first, "block", held
            held = ""


def words(text):
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return None


def calls(text):
    """The words of each simple command, without assignments before it and redirections."""
    call, skip = [], False
    for word in (words(text) or []) + [";"]:
        if skip:
            skip = False
        elif re.fullmatch(r"[;&|()]+", word):
            if call:
                yield call
            call = []
        elif re.fullmatch(r"[<>]+&?", word):
            if call and call[-1].isdigit():
                call.pop()
            skip = True
        elif call or not re.fullmatch(r"[A-Za-z_]+=.*", word):
            call.append(word)


def ours(call):
    if OUR.fullmatch(call[0]):
        return ["kmodsmith"] + call[1:]
    if call[0] == "kubectl" and call[1:2] == ["kmodsmith"]:
        return ["kubectl-kmodsmith"] + call[2:]
    behind = "--" if call[0] == "kubectl" else "--args" if call[0] == "gdb" else None
    if call[0] not in RUNNERS or (behind and behind not in call):
        return None
    for i, word in enumerate(call):
        if OUR.fullmatch(word) and i > (call.index(behind) if behind else 0):
            return ["kmodsmith"] + call[i + 1:]
    return None


def has_value(schema, key):
    """Whether a chart's value may be set: site\\.pem is one word."""
    root = schema
    for part in re.findall(r"(?:\\.|[^.\\])+", key):
        part = re.sub(r"\[\d+\]$", "", part)
        while "$ref" in schema:
            schema = root[schema["$ref"].split("/")[1]][schema["$ref"].split("/")[2]]
        known = schema.get("properties", {})
        if part not in known and schema.get("additionalProperties", True) is False:
            return False
        if part in known:
            schema = known[part]
        elif isinstance(schema.get("additionalProperties"), dict):
            schema = schema["additionalProperties"]
        else:
            return not known
        schema = schema.get("items", schema)
    return True


def arguments(call, *names):
    for i, word in enumerate(call):
        name, equals, value = word.partition("=")
        if name in names:
            yield value if equals else call[i + 1]


def wrong(top, call):
    program = call[0]
    if program in ("kubectl", "helm", "podman", "docker", "buildah"):
        for name in arguments(call, "-f", "--values", "--filename"):
            if "/" in name and not name.startswith(("/", "http")) and not glob.glob(os.path.join(top, name)):
                yield f"no file '{name}'"
    if program == "kubectl":
        manifests = "".join(open(f).read() for f in glob.glob(top + "/deploy/*.yaml") + glob.glob(top + "/deploy/helm/*/templates/*"))
        for name in re.findall(r"\b(?:daemonset|deploy|deployment|cronjob)/(kmodsmith[a-z-]*)", " ".join(call)):
            if not re.search(rf"name: {name}\b", manifests):
                yield f"no object '{name}'"
    if program == "helm" and call[1] in ("install", "upgrade", "template", "package", "lint"):
        chart = next((word for word in call[2:] if word.startswith("deploy/helm/") and not word.endswith(".yaml")), None)
        if not chart:
            return  # another project's
        if not os.path.exists(os.path.join(top, chart, "Chart.yaml")):
            yield f"no chart '{chart}'"
            return
        schema = json.load(open(os.path.join(top, chart, "values.schema.json")))
        for pair in arguments(call, "--set", "--set-string", "--set-file", "--set-json"):
            for key in re.findall(r"(?:^|(?<=,))([^=,]+)=", pair):
                if not has_value(schema, key):
                    yield f"no value '{key}'"
    if program == "make":
        targets = re.findall(r"^([a-z-]+(?: [a-z-]+)*):", open(top + "/Makefile").read(), re.M)
        targets = {t for line in targets for t in line.split()} | {"compile_commands.json"}
        for word in call[1:]:
            if re.fullmatch(r"[a-z][a-z-]*", word) and word not in targets:
                yield f"no target '{word}'"
    if program in ("podman", "docker", "buildah") and call[1] == "build":
        known = set(re.findall(r"^ARG (\w+)", open(top + "/images/Containerfile").read(), re.M))
        stages = set(re.findall(r"^FROM .* AS (\w+)", open(top + "/images/Containerfile").read(), re.M | re.I))
        for pair in arguments(call, "--build-arg"):
            if pair.partition("=")[0] not in known:
                yield f"no argument '{pair}'"
        for stage in arguments(call, "--target"):
            if stage not in stages:
                yield f"no target '{stage}'"


def main():
    mode, top, files = sys.argv[1], sys.argv[2], sys.argv[3 if sys.argv[1] == "wrong" else 2:]
    for path in files:
        for number, kind, text in blocks(path):
            for call in calls(text):
                if mode == "list" and ours(call):
                    print(f"{path}:{number}", kind, shlex.join(ours(call)), sep="\t")
                elif mode == "values" and call[0] == "helm" and "deploy/helm/kmodsmith" in call:
                    names = ("-f", "--values", "--set", "--set-string", "--set-file", "--set-json")
                    print(shlex.join(word for name in names for value in arguments(call, name) for word in (name, value)))
                elif mode == "wrong":
                    for what in wrong(top, call):
                        print(f"{path}:{number}: {call[0]}: {what}")


main()

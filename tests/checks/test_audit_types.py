#!/usr/bin/python3 -B
"""Goal: the types of audit records are one table: doc/audit.md shows it, and the source uses all of it and nothing else."""
import os
import re
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TABLE = os.path.join(TOP, "src", "daemon", "audit", "audit_types.c")
# The first words of types. Other quoted texts of this form are names of files, settings and the like.
FAMILIES = ("audit", "build", "exec", "execution", "file", "key", "mcp", "network", "node", "package", "policy", "port", "review",
            "secret", "session", "snapshot", "template", "tenant", "volume", "watch", "approval", "trace", "alarm")
QUOTED = re.compile(r'"((?:%s)\.[a-z_]+)"' % "|".join(FAMILIES))
PLAIN = {"alarm"}  # types of one word, which stand for much else in the source
NOT_TYPES = {"execution.output", "file.changed"}  # events that are no records


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as f:
        return f.read()


def table():
    rows = re.findall(r'\{ "([a-z_.]+)", "([A-Z]{3}[0-9]{2})", (\d+),\s*"([^"]*)" \}', read("src", "daemon", "audit", "audit_types.c"))
    assert len(rows) > 30, "the table could not be read"
    return rows


def used():
    found = {}
    for folder in ("daemon", "front"):
        for where, _, names in os.walk(os.path.join(TOP, "src", folder)):
            for name in names:
                path = os.path.join(where, name)
                if not name.endswith(".c") or os.path.samefile(path, TABLE):
                    continue
                with open(path, encoding="utf-8") as f:
                    for word in QUOTED.findall(f.read()):
                        found.setdefault(word, os.path.relpath(path, TOP))
    return {word: path for word, path in found.items() if word not in NOT_TYPES}


def documented():
    return re.findall(r"^\| `([a-z_.]+)` \| ([A-Z]{3}[0-9]{2}) \| (\d+) \| ([^|]+) \|", read("doc", "audit.md"), re.M)


def test_the_document_is_the_table():
    rows, shown = sorted(table()), sorted(documented())
    assert [r[:3] for r in rows] == [s[:3] for s in shown], sorted(set(r[:3] for r in rows) ^ set(s[:3] for s in shown))
    for row, line in zip(rows, shown):
        assert line[3].strip().startswith(row[3]), (row[3], line[3])


def test_the_source_uses_the_table():
    names, found = {r[0] for r in table()}, used()
    for word, path in found.items():
        assert word in names, f"{path}: {word} is not in audit_types.c"
    for name in names:
        assert name in found or name in PLAIN, f"{name} is used nowhere"


def test_codes_are_given_once():
    codes = [r[1] for r in table()]
    assert len(codes) == len(set(codes)), codes
    assert [r[0] for r in table()] == sorted(r[0] for r in table()), "the table is searched by halves"


tests = [(k, v) for k, v in list(globals().items()) if k.startswith("test_")]
print(f"1..{len(tests)}")
failed = False
for i, (name, test) in enumerate(tests, 1):
    try:
        test()
        print(f"ok {i} - {name}")
    except AssertionError as e:
        failed = True
        print(f"not ok {i} - {name}: {e}")
sys.exit(failed)

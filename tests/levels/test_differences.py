#!/usr/bin/python3 -B
"""Goal: what differs by level has one name in doc/levels.md, in tests/shared/level_differences.py and in the tests, none of them
without the others.

    test_differences.py"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "tests/shared"))
from checks import check, equal, has, named_tests, run_tap  # noqa: E402
from level_differences import DIFFERENCES, LEVELS  # noqa: E402

ASKED = re.compile(r'''\b(?:differs|instead)\((["'])([^"']*)\1''')
CALLED = re.compile(r"\b(?:differs|instead)\((?!name\b)([^\s\"')][^)]*)")
OWN = {"test_differences.py", "level.py", "level_differences.py"}


def documented(level):
    """{name: text} of the table whose head is `| name | at LEVEL |`."""
    lines = (ROOT / "doc/levels.md").read_text().splitlines()
    heads = [i for i, line in enumerate(lines) if line == f"| name | at {level} |"]
    equal(len(heads), 1, f"tables of {level}")
    rows = {}
    for line in lines[heads[0] + 2 :]:
        if not line.startswith("|"):
            break
        name, text = (cell.strip() for cell in line.strip("|").split("|", 1))
        name = name.replace("`", "")
        check(name not in rows, f"{name} is there twice")
        rows[name] = text
    return rows


def sources():
    return [path for kind in ("py", "mjs") for path in (ROOT / "tests").rglob(f"*.{kind}") if path.name not in OWN]


def asked():
    """{name: files of tests that ask for it}"""
    found = {}
    for path in sources():
        for _, name in ASKED.findall(path.read_text()):
            found.setdefault(name, set()).add(path.name)
    return found


def test_each_row_of_the_documentation_is_in_the_table_and_the_other_way_round():
    for level in LEVELS:
        equal(sorted(documented(level)), sorted(name for name, levels in DIFFERENCES.items() if level in levels), level)


def test_each_has_a_text():
    for name, levels in DIFFERENCES.items():
        check(levels and set(levels) <= set(LEVELS), f"{name}: {levels}")
        check(all(levels.values()), f"{name} does not say what happens")
    for level in LEVELS:
        check(all(documented(level).values()), f"a row of {level} has no text")


def test_each_is_shown_by_a_test():
    names = asked()
    equal(sorted(names), sorted(DIFFERENCES), "names that tests ask for, and those of the table")


def test_names_are_written_out():
    """So that this program sees them all."""
    for path in sources():
        text = path.read_text()
        if path.suffix == ".mjs" or "from level import" in text or "import level" in text:
            equal([word for word in CALLED.findall(text)], [], path.name)


def test_the_check_can_fail():
    has(documented("gvisor"), "set-user-id")
    check("no such difference" not in documented("gvisor"), "every name is there")


if __name__ == "__main__":
    sys.exit(run_tap(named_tests(globals(), sys.argv[1:])))

#!/usr/bin/python3 -B
"""Goal: what differs by level has one name in doc/levels.md, in tests/shared/level_differences.py and in the tests, none of them
without the others; and which programs run at every level.

    test_differences.py INTRO_TESTS_JSON [name ...]

INTRO_TESTS_JSON is Meson's list of all tests: each program of the suites that the level is a switch for runs at every level, or is
named in tests/README.md with the reason why not."""
import json
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
SUITES = ("behaviour", "limits", "server", "sdk", "conformance", "egress", "chaos")


def table(page, head):
    """The rows below a line of a page, as lists of cells."""
    lines = (ROOT / page).read_text().splitlines()
    equal(lines.count(head), 1, f"tables with the head {head}")
    rows = lines[lines.index(head) + 2 :]
    end = next(i for i, line in enumerate([*rows, ""]) if not line.startswith("|"))
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[:end]]


def documented(level):
    """{name: text} of the table whose head is `| name | at LEVEL |`."""
    rows = {}
    for name, *text in table("doc/levels.md", f"| name | at {level} |"):
        name = name.replace("`", "")
        check(name not in rows, f"{name} is there twice")
        rows[name] = "|".join(text)
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


def programs():
    """{name: suites} of Meson's tests."""
    with open(sys.argv[1]) as f:
        return {test["name"]: [suite.split(":")[-1] for suite in test["suite"]] for test in json.load(f)}


def test_each_program_runs_at_every_level_or_says_why_not():
    tests = programs()
    wanted = {name for name, suites in tests.items() if set(suites) & set(SUITES)}
    check(wanted, "no test of these suites")
    everywhere = {name for name in wanted if all({f"levels {at} {name}", f"levels {at} {name}, long"} & set(tests) for at in LEVELS)}
    excused = []
    for suite, names, why in table("tests/README.md", "| suite | programs | why not at each level |"):
        check(why, f"no reason for {names}")
        excused += [f"{suite} {name}" if f"{suite} {name}" in tests else name for name in re.findall("`([^`]+)`", names)]
    equal(sorted(name for name in excused if excused.count(name) > 1), [], "named twice")
    equal(sorted(set(excused) - wanted), [], "named, but no program of these suites")
    equal(sorted(set(excused) & everywhere), [], "named, although they run at every level")
    equal(sorted(wanted - everywhere - set(excused)), [], "neither run at every level nor named")


def test_the_check_can_fail():
    has(documented("gvisor"), "set-user-id")
    check("no such difference" not in documented("gvisor"), "every name is there")


if __name__ == "__main__":
    sys.exit(run_tap(named_tests(globals(), sys.argv[2:])))

#!/usr/bin/python3 -B
"""Goal: tools/step_tables.py refuses rows of step tables that nothing before leads to, tools/check-docs a number of two decisions, and
tools/check-programs sources that no meson.build names.

Each test writes a small tree and gives it to the check."""
import importlib.machinery
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[1:1] = [str(ROOT / "tests/shared"), str(ROOT / "tools")]
from checks import equal, has, named_tests, run_tap  # noqa: E402
import step_tables  # noqa: E402

# first.c calls second.c. third.c and fourth.c call each other only.
FILES = {
    "src/a/first.c": "int second(void);\nint first(void)\n{\n\treturn second();\n}\n",
    "src/a/second.c": "int second(void)\n{\n\treturn 0;\n}\n",
    "src/a/third.c": "int fourth(void);\nint third(void)\n{\n\treturn fourth();\n}\n",
    "src/a/fourth.c": "int third(void);\nint fourth(void)\n{\n\treturn third();\n}\n",
}


def errors_of(*rows):
    table = "| step | file | process |\n|---|---|---|\n" + "\n".join(f"| {i}. step | {files} | |" for i, files in enumerate(rows))
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return [(path, why) for _, path, why in step_tables.errors(table, step_tables.Sources(folder, set(FILES)))]


def test_a_row_that_is_called_is_taken():
    equal(errors_of("`a/first.c`", "`a/second.c`"), [])


def test_a_row_that_only_knows_itself_is_refused():
    found = errors_of("`a/first.c`", "`a/third.c`, `a/fourth.c`")
    equal([path for path, _ in found], ["a/third.c", "a/fourth.c"])


def test_a_file_twice_in_a_row_is_refused():
    equal(errors_of("`a/first.c`", "`a/second.c`, `a/second.c`"), [("a/second.c", "the row names it twice")])


def test_a_number_of_two_decisions_is_refused():
    loader = importlib.machinery.SourceFileLoader("check_docs", str(ROOT / "tools/check-docs"))
    spec = importlib.util.spec_from_loader("check_docs", loader)
    check_docs = importlib.util.module_from_spec(spec)
    loader.exec_module(check_docs)
    pages = ["doc/decisions/001-a.md", "doc/decisions/002-b.md", "doc/README.md"]
    equal(list(check_docs.number_errors(pages)), [])
    equal(list(check_docs.number_errors(pages + ["doc/decisions/002-c.md"])), ["doc/decisions/002-c.md: doc/decisions/002-b.md has that number"])


def test_a_source_that_is_not_built_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("tools/check-programs", "meson.build", "Makefile"):
            (pathlib.Path(folder) / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, pathlib.Path(folder) / name)
        shutil.copytree(ROOT / "src", pathlib.Path(folder) / "src")
        check = [pathlib.Path(folder) / "tools/check-programs"]
        equal(subprocess.run(check, capture_output=True, text=True, check=False).returncode, 0)
        (pathlib.Path(folder) / "src/lib/base/forgotten.c").write_text("int x;\n", encoding="utf-8")
        done = subprocess.run(check, capture_output=True, text=True, check=False)
        equal(done.returncode, 1)
        has(done.stdout, "src/lib/base/forgotten.c: in no meson.build")


if __name__ == "__main__":
    sys.exit(run_tap(named_tests(globals(), sys.argv[1:])))

"""sanitizer.py - finds reports of sanitizers and failed assertions in what our programs wrote.

cordond and cordon-egress are confined: a report cannot go to a file of its own (log_path), so it is on stderr,
which is the server's log. Leaks are looked for by the unit tests only: the leak checker needs ptrace and clone,
which the filters of cordond and cordon-egress refuse."""
import os
import re

os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1:handle_abort=0:detect_stack_use_after_return=0")
os.environ.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")

BEGIN = re.compile(
    r"ERROR: \w*Sanitizer|\.[ch]:\d+:\d+: runtime error: |: Assertion `|\*\*\* stack smashing|\*\*\* buffer overflow|"
    r"free\(\): |malloc\(\): |double free or corruption|malloc_consolidate\(\)|Can't open file: "
)
REPORT_LINES = 60


def reports(text):
    """Each report as a text of its own; best none."""
    lines, found, skip = text.splitlines(), [], 0
    for number, line in enumerate(lines):
        if skip <= 0 and BEGIN.search(line) and "msg=" not in line:
            found.append("\n".join(line for line in lines[number : number + REPORT_LINES] if "msg=" not in line))
            skip = REPORT_LINES
        skip -= 1
    return found


def is_sanitized(program):
    """ASan keeps what was freed, and costs time and memory: some bounds say nothing about such a program."""
    with open(program, "rb") as f:
        return b"__asan_init" in f.read()

"""sanitizer.py - finds reports of sanitizers and failed assertions in what our programs wrote.

cordond and cordon-egress are confined: a report cannot go to a file of its own (log_path), so it is on stderr,
which is the server's log. Leaks are looked for by the unit tests only: the leak checker needs ptrace and clone,
which the filters of cordond and cordon-egress refuse. Nor can they read their own files for the names of functions:
those are found here."""
import os
import re
import subprocess

os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0")
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
            found.append(named([line for line in lines[number : number + REPORT_LINES] if "msg=" not in line]))
            skip = REPORT_LINES
        skip -= 1
    return found


def named(lines):
    """The report with names and places of functions, as far as there is a program to ask."""
    frames = [re.search(r"^ *#\d+ .*\((/[^)]*)\+(0x[0-9a-f]+)\)", line) for line in lines]
    for program in {f[1] for f in frames if f and os.path.exists(f[1])}:
        which = [i for i, f in enumerate(frames) if f and f[1] == program]
        asked = subprocess.run(["addr2line", "-fsipe", program, *(frames[i][2] for i in which)], capture_output=True, text=True)
        for i, place in zip(which, asked.stdout.splitlines()):
            lines[i] = f"{lines[i].split(' 0x')[0]} {place}"
    return "\n".join(line for line in lines if not re.match(r" *=?>?0x0|  (Addressable|Partially|Heap|Freed|Stack|Global|Poison|Container|Array|Intra|ASan)", line))


def is_sanitized(program):
    """ASan keeps what was freed, and costs time and memory: some bounds say nothing about such a program."""
    with open(program, "rb") as f:
        return b"__asan_init" in f.read()

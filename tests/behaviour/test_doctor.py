#!/usr/bin/python3 -B
"""test_doctor.py - the verbs that only tell: doctor, profile, help, the manual page."""
import os
import re
import resource
import shutil
import subprocess

import tap
from tap import Done, Skip, check, equal, has

OPTIONS = [
    "allow",
    "deny",
    "policy",
    "allow-private",
    "net-log",
    "egress-ca",
    "template",
    "profile",
    "level",
    "memory",
    "cpus",
    "pids",
    "disk",
    "inodes",
    "nofile",
    "timeout",
    "boot-timeout",
    "output-limit",
    "user",
    "cwd",
    "env",
    "hostname",
    "mount",
    "mount-unsafe",
    "tty",
    "interactive",
    "read-only",
    "runsc",
    "state-dir",
    "diff",
    "result",
    "best-effort",
    "help",
]


def cordon(*words, **more):
    p = subprocess.run([tap.PROGRAM, *words], capture_output=True, timeout=60, stdin=subprocess.DEVNULL, **more)
    return Done(p.returncode, p.stdout, p.stderr)


def rows(text):
    """{(group, name): yes or no} and the last line."""
    found = {}
    for line in text.splitlines():
        m = re.match(r"(isolation|limit|level|storage|template) +(.+?) +(yes|no) ", line + " ")
        if m:
            found[m[1], m[2].strip()] = m[3]
    return found


def test_doctor_counts_descriptors():
    d = cordon("doctor", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (5000, 5000)))
    equal(rows(d.text)["limit", "descriptors"], "no", "5,000 descriptors")
    has(d.text, "1000 sessions want")


def test_doctor_as_root():
    d = cordon("doctor")
    got = rows(d.text)
    for row in (
        ("isolation", "keeper"),
        ("isolation", "standard profile"),
        ("isolation", "locked profile"),
        ("isolation", "user ids"),
        ("isolation", "Landlock"),
        ("isolation", "egress"),
        ("limit", "memory"),
        ("limit", "cpus"),
        ("limit", "pids"),
        ("limit", "disk, inodes"),
        ("level", "container"),
        ("level", "gvisor"),
        ("level", "microvm"),
        ("storage", "/usr"),
        ("storage", "disks"),
        ("storage", "package cache"),
        ("limit", "disk rate"),
        ("template", "python3"),
        ("template", "sudo"),
    ):
        check(row in got, f"no row {row} in:\n{d.text}")
    if d.rc == 0:
        equal((got["isolation", "standard profile"], got["limit", "memory"]), ("yes", "yes"))
        has(d.text, "standard profile is possible here")
    else:
        equal(d.rc, 1)
        has(d.text, "NOT possible")
    equal(d.errors, "")
    has(d.text.splitlines()[0], "as root")


def test_doctor_agrees_with_what_happens():
    got = rows(cordon("doctor").text)
    for profile in ("standard", "locked"):
        works = tap.run("--profile", profile, cmd=["true"]).rc == 0
        equal(got["isolation", f"{profile} profile"], "yes" if works else "no", profile)
    restrictions = tap.run(cmd=["true"], result=True).result["restrictions"]
    equal(got["limit", "memory"], "yes" if restrictions["memory_limit"] else "no")
    equal(got["isolation", "Landlock"], "yes" if restrictions["landlock"] else "no")
    equal(got["isolation", "egress"], "yes" if restrictions["egress_redirect"] else "no")


def test_doctor_as_an_ordinary_user():
    d = cordon("doctor", user=54323, group=54323, extra_groups=[], env={"HOME": "/nonexistent"})
    check(d.rc in (0, 1), f"exit code {d.rc}: {d.errors}")
    has(d.text.splitlines()[0], "ordinary user")
    got = rows(d.text)
    if got["isolation", "keeper"] == "yes":
        check(("limit", "memory") in got, d.text)
        if got["limit", "memory"] == "no":
            has(d.text, "-> ", "help for what is missing")
    equal(d.rc == 0, "is possible here" in d.text, "the exit code and the last line")
    shutil.rmtree("/tmp/cordon-54323", ignore_errors=True)


def test_doctor_takes_no_arguments():
    cordon("doctor", "--help").exits(0)
    cordon("doctor", "x").exits(125)


def test_profile_lists_calls():
    standard = dict(line.rsplit(None, 1) for line in cordon("profile").exits(0).text.splitlines())
    equal(cordon("profile", "standard").exits(0).text, cordon("profile").text)
    locked = dict(line.rsplit(None, 1) for line in cordon("profile", "locked").exits(0).text.splitlines())
    check(len(standard) > 300, f"only {len(standard)} calls")
    equal(set(standard), set(locked), "the same calls in both")
    for name in ("read", "write", "execve", "mmap"):
        equal((standard[name], locked[name]), ("allow", "allow"), name)
    for name in ("mount", "bpf", "init_module", "kexec_load", "reboot", "pivot_root", "swapon"):
        check(standard[name] != "allow" and locked[name] != "allow", f"{name} is {standard[name]}")
    check(
        sum(v == "allow" for v in locked.values()) < sum(v == "allow" for v in standard.values()),
        "locked is not smaller",
    )
    cordon("profile", "lax").exits(125)
    cordon("profile", "--help").exits(0)


def test_help_names_every_option():
    text = cordon("run", "--help").exits(0).text
    for name in OPTIONS:
        check(re.search(rf"^  (-\w, )?--{name}\b", text, re.M), f"--{name} is not in the help")
    equal(sorted(re.findall(r"^  (?:-\w, )?--([a-z-]+)", text, re.M)), sorted(OPTIONS), "options in the help and in this test")
    for code in ("124", "125", "126", "127", "137", "128+n"):
        has(text, code)
    check(max(map(len, text.splitlines())) <= 120, "a line is too wide")


def test_help_version_and_verbs():
    text = cordon("--help").exits(0).text
    for verb in ("run", "doctor", "profile"):
        has(text, f"cordon {verb}")
    check(re.fullmatch(r"cordon \d+\.\d+\.\d+\n", cordon("--version").exits(0).text), "version")
    has(cordon("--nonsense").exits(2).errors, "--nonsense")
    # Help works where nothing else does.
    equal(cordon("run", "--memory", "64M", "--help").exits(0).text, cordon("run", "--help").text)


def built(*words):
    """The program beside cordon-client, which has the verbs that need a server."""
    p = subprocess.run([tap.BUILT, *words], capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    return Done(p.returncode, p.stdout, p.stderr)


def test_help_forgives():
    text = built("--help").exits(0).text
    for words in (["help"], ["-h"], []):
        equal(built(*words).exits(0).text, text, words)
    equal(len(re.findall(r"^  cordon run ", text, re.M)), 2, "run, and run --server")
    equal(built("version").exits(0).text, built("--version").exits(0).text)
    for verb in ("run", "doctor", "ls", "tenant"):
        help_text = built(verb, "--help").exits(0).text
        check(help_text.startswith(f"usage: cordon {verb}"), help_text)
        equal(built("help", verb).exits(0).text, help_text, f"help {verb}")
        equal(built(verb, "-h").exits(0).text, help_text, f"{verb} -h")
    for typed, meant in (("lss", "ls"), ("list", "ls"), ("serv", "serve"), ("craete", "create"), ("delete", "rm")):
        has(built(typed).exits(2).errors, f"did you mean `cordon {meant}`?", typed)
    has(built("frobnicate").exits(2).errors, "see cordon --help")
    has(built("help", "lss").exits(2).errors, "did you mean `cordon ls`?")
    has(built("run", "--memry", "1G", "--", "true").exits(125).errors, "did you mean --memory?")
    has(built("ls", "--al").exits(2).errors, "did you mean --all?")
    head = subprocess.run(["sh", "-c", '"$0" --help | head -1; exit 0', tap.BUILT], capture_output=True, text=True, timeout=30)
    equal((head.returncode, head.stderr), (0, ""), "help of which only the first line is read")


def test_manual_page():
    page = cordon("--man").exits(0).out
    check(page.startswith(b".TH CORDON 1"), page[:40])
    for name in OPTIONS:
        has(page.decode(), "\\-\\-" + name.replace("-", "\\-"), "the manual")
    ran = 0
    for words in (
        ["mandoc", "-Tlint", "-Wwarning"],
        ["groff", "-man", "-ww", "-Tascii", "-z"],
        ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", "-"],
    ):
        if shutil.which(words[0]) is None:
            continue
        ran += 1
        p = subprocess.run(words, input=page, capture_output=True, timeout=60, env={**os.environ, "MANROFFSEQ": ""})
        if words[0] == "mandoc":
            bad = [line for line in p.stdout.splitlines() if b"ERROR" in line or b"UNSUPP" in line]
            equal(bad, [], "mandoc")
            continue
        equal((p.returncode, p.stderr), (0, b""), " ".join(words))
    if ran == 0:
        raise Skip("neither man, groff nor mandoc on this machine")


if __name__ == "__main__":
    tap.main(globals())

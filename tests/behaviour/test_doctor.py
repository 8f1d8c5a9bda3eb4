#!/usr/bin/python3 -B
"""test_doctor.py - the verbs that only tell: doctor, profile, help, the manual page."""
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile

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
            with open("/proc/self/mountinfo", encoding="utf-8") as f:
                v1 = re.search(r" - cgroup \S+ \S*\bmemory\b", f.read())
            equal("Delegate=yes" in d.text, v1 is None, "v1 cannot be delegated")
            has(d.text, "booted with cgroup v2" if v1 else "systemd-run --user")
    equal(d.rc == 0, "is possible here" in d.text, "the exit code and the last line")
    shutil.rmtree("/tmp/cordon-54323", ignore_errors=True)


def test_verbs_without_a_server_print_json():
    """The same as their text."""
    def rest(d):
        return {(r["group"], r["name"]): "yes" if r["ok"] else "no" for r in d["rows"]}

    d = cordon("doctor", "--quick", "--json")
    got = json.loads(d.text)
    equal(rest(got), rows(cordon("doctor", "--quick").text))
    equal((got["possible"], got["root"], d.errors), (d.rc == 0, True, ""))
    equal(got["missing"], sum(not r["ok"] for r in got["rows"]))
    check(all(r["help"] is None for r in got["rows"] if r["ok"]) and isinstance(got["left"]["cells"], int), got)
    check("list" in json.loads(cordon("doctor", "--quick", "--json", "--cells").text)["left"], "--cells")
    levels = json.loads(cordon("level", "--json").exits(0).text)["levels"]
    equal([f"{x['name']:9} {x['note'] or 'possible'}" for x in levels], cordon("level").text.splitlines())
    for name in ("standard", "locked"):
        got = json.loads(cordon("profile", name, "--json").exits(0).text)
        want = dict(line.rsplit(None, 1) for line in cordon("profile", name).text.splitlines())
        equal((got["profile"], {**got["calls"], "(every other call)": got["other"]}), (name, want))
    equal(json.loads(cordon("profile", "--json", "locked").text)["profile"], "locked")
    for words in (["doctor", "--json", "--clean"], ["guest", "install", "--json"], ["level", "install", "gvisor", "--json"]):
        has(cordon(*words).exits(2).errors, "--json")


FAKE_APT = r"""#!/bin/sh
echo "$*" >>"$(dirname "$0")/calls"
case "$*" in
*" update") exit 0 ;;
*"-t bookworm-backports install"*) case $(cat "$(dirname "$0")/has") in
	backports) ;;
	*) echo "E: The value 'bookworm-backports' is invalid for APT::Default-Release as such a release is not available in the sources" >&2; exit 100 ;;
	esac ;;
*" install "*) [ "$(cat "$(dirname "$0")/has")" = main ] || { echo 'E: Unable to locate package runsc' >&2; exit 100; } ;;
*) exit 1 ;;
esac
cp "$(dirname "$0")/made" "$(dirname "$0")/runsc"
"""


FAKE_RUNSC = '#include <stdio.h>\nint main(void) { puts("runsc version 0.0~20240729.0"); }\n'


def test_level_install_asks_apt():
    """The lists that apt has, new lists, the backports; and the line that is missing if there are none."""
    if any(os.path.exists(f"{place}/runsc") for place in ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")):
        raise Skip("this machine has a runsc")
    first = "-y -qq --no-install-recommends install runsc"
    late = "-y -qq --no-install-recommends -t bookworm-backports install runsc"
    for what, code, calls in (("main", 0, [first]), ("backports", 0, [first, "-qq update", first, late]), ("nothing", 125, [first, "-qq update", first, late])):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("apt-get", FAKE_APT), ("has", what), ("os-release", "NAME=Debian\nVERSION_CODENAME=bookworm\n")):
                with open(f"{folder}/{name}", "w", encoding="ascii") as f:
                    f.write(text)
            os.chmod(folder, 0o755)
            os.chmod(f"{folder}/apt-get", 0o755)
            subprocess.run(["cc", "-xc", "-", "-o", f"{folder}/made"], input=FAKE_RUNSC, text=True, check=True, timeout=60)
            script = 'mount --bind "$1/os-release" /etc/os-release && mount --bind "$1" /usr/local/sbin && exec "$2" level install gvisor'
            p = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", folder, tap.PROGRAM],
                               capture_output=True, text=True, timeout=60)
            with open(f"{folder}/calls", encoding="ascii") as f:
                equal((p.returncode, f.read().splitlines()), (code, calls), what + p.stderr)
            has(p.stdout, "installing runsc\n")
            if code == 0:
                has(p.stdout, "runsc of 20240729")
            else:
                has(p.stderr, "Unable to locate package runsc; apt has no bookworm-backports: add `deb MIRROR bookworm-backports main`")


def test_doctor_takes_no_arguments():
    cordon("doctor", "--help").exits(0)
    cordon("doctor", "x").exits(2)


def test_wrong_use_has_a_code_of_its_own():
    """2, as for the verbs of a server; 125 stays what it was: Cordon failed."""
    for words in (["guest", "x"], ["guest", "--nosuch"], ["guest", "--deb", "/f"], ["level", "x"], ["level", "--nosuch"], ["level", "install"],
                  ["level", "install", "container"], ["level", "install", "gvisor", "x"], ["profile", "--nosuch"], ["profile", "standard", "x"],
                  ["run"], ["run", "--nosuch"], ["run", "--allow", "bad host", "--", "true"], ["serve", "--nosuch"]):
        d = cordon(*words).exits(2)
        equal((d.text, len(d.errors.splitlines())), ("", 1), words)
    cordon("run", "--cwd", "/no/such", "--", "true").exits(125)


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
    cordon("profile", "lax").exits(2)
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


def verbs():
    """The names of all verbs, from the table that shells complete with."""
    table = built("--complete", "").exits(0).text.splitlines()
    return [line.split("\t")[0] for line in table if not line.startswith("-")]


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
    for verb in verbs():
        has(built(verb + verb[-1]).exits(2).errors, f"did you mean `cordon {verb}`?", f"{verb} with its last letter twice")
    has(built("frobnicate").exits(2).errors, "see cordon --help")
    has(built("help", "lss").exits(2).errors, "did you mean `cordon ls`?")
    has(built("run", "--memry", "1G", "--", "true").exits(2).errors, "did you mean --memory?")
    has(built("ls", "--al").exits(2).errors, "did you mean --all?")
    head = subprocess.run(["sh", "-c", '"$0" --help | head -1; exit 0', tap.BUILT], capture_output=True, text=True, timeout=30)
    equal((head.returncode, head.stderr), (0, ""), "help of which only the first line is read")


def test_examples_of_verbs():
    """Each verb has some, and they use options that it has."""
    names = verbs()
    check(len(names) > 40 and len(set(names)) == len(names) - 1, names)  # run is there twice
    every = {verb: set(re.findall(r"--[a-z-]+", built(verb, "--help").exits(0).text)) for verb in names}
    every["run"] |= set(re.findall(r"--[a-z-]+", built("run", "--server", "--help").exits(0).text))
    for verb in names:
        text = built(verb, "--help").text
        check(max(map(len, text.splitlines())) <= 120, f"{verb}: a line is too wide")
        part = re.search(r"^examples:\n((?:  .*\n)+)", text, re.M)
        check(part is not None, f"{verb} has no examples")
        for line in part[1].splitlines():
            for used, words in re.findall(r"cordon ([a-z]+)([^|)#($]*)", line.split(" -- ")[0]):
                check(used in every, line)
                missing = set(re.findall(r"(?<= )--[a-z-]+", words)) - every[used]
                check(not missing, f"{missing} in: {line}")
        check(any(f"cordon {verb}" in line for line in part[1].splitlines()), verb)
    for verb in ("ls", "create", "template"):  # five lines less in each help
        check(not re.search(r"^  --(server|key-file|insecure)", built(verb, "--help").text, re.M), verb)
        has(built(verb, "--help").text, "global options, described by cordon --help: --json --server --key-file --ca-file --insecure --help")
    for name in ("json", "server", "key-file", "ca-file", "insecure", "help"):
        check(re.search(rf"^  --{name}\b", built("--help").text, re.M), name)


def test_the_same_option_has_the_same_letter():
    """run, run --server, exec, attach and create are cousins: what is -t, -i, -e, -u, -w in one is so in each that has the option."""
    letters = {}
    for words in (["run"], ["run", "--server"], ["exec"], ["attach"], ["create"]):
        for letter, name in re.findall(r"^  (?:-(\w), )?--([a-z-]+)", built(*words, "--help").exits(0).text, re.M):
            letters.setdefault(name, {})[" ".join(words)] = letter
    wrong = {name: of for name, of in letters.items() if len(set(of.values())) > 1}
    equal(wrong, {})
    for name, letter in (("tty", "t"), ("interactive", "i"), ("env", "e"), ("user", "u"), ("cwd", "w")):
        check({letters[name].get(verb) for verb in ("run", "run --server", "exec")} == {letter}, f"--{name}: {letters[name]}")


def test_completion_table():
    """What shells offer, without a server; the values that it knows are in tests/client."""
    def offered(*words):
        return [line.split("\t")[0] for line in built("--complete", *words).exits(0).text.splitlines()]

    check({"run", "ls", "tenant", "--help"} <= set(offered("")), offered(""))
    equal(offered("create", "--level", ""), ["container", "gvisor", "microvm"])
    equal(offered("run", "--level", ""), ["container", "gvisor", "microvm"])
    check({"--memory", "--server"} <= set(offered("run", "-")), offered("run", "-"))
    check("--save-dir" in offered("run", "--server", "-"), offered("run", "--server", "-"))
    equal(offered("key", ""), ["ls", "create", "rm"])
    equal(offered("packages", "cache", ""), ["ls", "gc", "verify", "warm"])
    equal(offered("packages", "advisories", ""), ["clear", "import"])
    equal(offered("packages", "advisories", "import", "a", ""), [":files"])
    equal(offered("level", "install", ""), ["gvisor", "microvm"])
    equal(offered("profile", ""), ["standard", "locked"])
    equal(offered("exec", "ID", "-t", "--", "ca"), [":command"])
    equal(offered("exec", "-u", "root", "ID", ""), [":command"])
    equal(offered("exec", "--env", ""), [])
    equal(offered("exec", "--lang=py", "--save-dir", ""), [":files"])
    for verb in ("run", "create"):
        check("pypi" in offered(verb, "--policy", "") and ":files" in offered(verb, "--policy", ""), verb)
    equal(offered("frobnicate", ""), [])


def test_manual_page():
    page = cordon("--man").exits(0).out
    client = subprocess.run([os.path.join(os.path.dirname(tap.BUILT), "cordon-client"), "--man"], capture_output=True, timeout=60).stdout
    for title in (b"GLOBAL OPTIONS", b"EXAMPLES", b"EXIT STATUS", b"ENVIRONMENT", b"FILES"):
        check(b".SH " + title + b"\n" in client, title)
    page += client
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

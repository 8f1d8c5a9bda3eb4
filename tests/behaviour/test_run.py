#!/usr/bin/python3 -B
"""test_run.py - cordon run: exit codes, options, environment."""
import concurrent.futures
import io
import os
import signal
import subprocess
import tarfile
import tempfile

import tap
from level import LEVEL, TEMPLATE, differs
from tap import Failed, Skip, check, environment, equal, finish, has, plain, python, run


# --- exit codes --------------------------------------------------------------------------------------


BOOTS = LEVEL == "microvm"  # a machine for each command: there are fewer of them


def test_every_exit_code_is_passed_on():
    codes = [0, 1, 64, 128] if BOOTS else list(range(256))  # the next but one has others
    with concurrent.futures.ThreadPoolExecutor(2 if BOOTS else 4) as pool:
        ends = list(pool.map(lambda n: run(cmd=f"exit {n}"), codes))
    equal([d.rc for d in ends], codes, "exit codes")
    equal([d.err for d in ends if d.err], [], "messages")


def test_a_signal_becomes_128_plus_its_number():
    for sig in (1, 9, 11, 15, 64) if BOOTS else (1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 31, 34, 64):
        d = run(cmd=f"kill -{sig} $$; sleep 5", result=True).exits(128 + sig)
        equal(d.result["signal"], sig, "signal")
        equal(d.result["state"], "killed", "state")
        equal(d.result["error"], None, "error")


def test_a_code_above_128_is_not_a_signal():
    for code in (124, 125, 126, 127, 137, 143, 255):
        d = run(cmd=f"exit {code}", result=True).exits(code)
        equal((d.result["signal"], d.result["state"], d.result["limit"]), (None, "exited", None))


def test_a_missing_command_is_127():
    for command in ("no-such-command", "/no/such/file", "./no-such-file", "/etc/no-such"):
        d = run(cmd=[command], result=True).exits(127)
        has(d.errors, command, "the message")
        equal(d.result["error"]["fault"], "user", "fault")
        equal(d.out, b"", "output")
    run(cmd=[""]).exits(127)


def test_what_cannot_be_executed_is_126():
    for command in ("/etc/passwd", "/tmp", "/etc"):
        d = run(cmd=[command], result=True).exits(126)
        has(d.errors, command, "the message")
        has(d.errors, "ermission denied", "the message")
        equal(d.result["error"]["fault"], "user", "fault")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "garbage")
        with open(path, "wb") as f:
            f.write(b"\0\1\2 no program\n")
        os.chmod(path, 0o755)
        d = run("--mount", f"{folder}:/mnt/it", cmd=["/mnt/it/garbage"])
        if differs("mounts"):
            d.refused("--mount")
        else:
            has(d.exits(126).errors, "xec format error", "the message")


def test_path_of_the_command_is_searched():
    run("--env", "PATH=/nowhere:/usr/bin", cmd=["true"]).exits(0)
    run("--env", "PATH=/nowhere", cmd=["true"]).exits(127)
    run("--cwd", "/usr/bin", cmd=["./true"]).exits(0)
    # A directory of that name and a file that may not be run are passed over for a later match.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        os.makedirs(os.path.join(folder, "a/prog"))
        for name, mode in (("b", 0o644), ("c", 0o755)):
            os.mkdir(os.path.join(folder, name))
            with open(os.path.join(folder, name, "prog"), "w") as f:
                f.write("#!/bin/sh\necho found\n")
            os.chmod(f.name, mode)
        d = run("--mount", f"{folder}:/mnt", "--env", "PATH=/mnt/a:/mnt/b:/mnt/c", cmd=["prog"])
        if differs("mounts"):
            d.refused("--mount")
            return
        equal(d.exits(0).text, "found\n")
        run("--mount", f"{folder}:/mnt", "--env", "PATH=/mnt/a:/mnt/b", cmd=["prog"]).exits(126)


# --- options -----------------------------------------------------------------------------------------

# What is given, and what the one-line message must name.
BAD = [
    (["--memory", "lots"], "--memory", "lots"),
    (["--memory", ""], "--memory"),
    (["--memory", "-5M"], "--memory", "-5M"),
    (["--memory", "1"], "--memory", "out of range"),
    (["--memory", "1Q"], "--memory", "1Q"),
    (["--memory", "99999999999999999999"], "--memory", "99999999999999999999"),
    (["--memory", "100T"], "--memory", "100T"),
    (["--memory", " 64M"], "--memory", " 64M"),
    (["--memory", "64M "], "--memory", "64M "),
    (["--memory", "0x40000000"], "--memory", "0x4"),
    (["--memory=1e9"], "--memory", "1e9"),
    (["--cpus", "0"], "--cpus", "'0'"),
    (["--cpus", "two"], "--cpus", "two"),
    (["--cpus", "-1"], "--cpus", "-1"),
    (["--cpus", "nan"], "--cpus", "nan"),
    (["--cpus", "0.00001"], "--cpus", "0.00001"),
    (["--cpus", "1."], "--cpus", "1."),
    (["--pids", "0"], "--pids", "'0'"),
    (["--pids", "1.5"], "--pids", "1.5"),
    (["--pids", "many"], "--pids", "many"),
    (["--pids", "5000000"], "--pids", "5000000"),
    (["--disk", "1"], "--disk", "out of range"),
    (["--disk", "big"], "--disk", "big"),
    (["--inodes", "1"], "--inodes", "out of range"),
    (["--inodes", "x"], "--inodes", "x"),
    (["--nofile", "3"], "--nofile", "out of range"),
    (["--nofile", "4294967296"], "--nofile", "out of range"),
    (["--timeout", "0"], "--timeout", "out of range"),
    (["--timeout", "soon"], "--timeout", "soon"),
    (["--timeout", "5 s"], "--timeout", "5 s"),
    (["--timeout", "-1s"], "--timeout", "-1s"),
    (["--timeout", "1000d"], "--timeout", "1000d"),
    (["--timeout", "0.0001ms"], "--timeout", "0.0001ms"),
    (["--output-limit", "some"], "--output-limit", "some"),
    (["--user", ""], "--user"),
    (["--user", "65536"], "--user", "65536"),
    (["--user", "4294967295"], "--user", "4294967295"),
    (["--user", "u" * 64], "--user", "too long"),
    (["--cwd", "relative"], "--cwd", "relative"),
    (["--env", "NOEQUALS"], "--env", "NOEQUALS"),
    (["--env", "=value"], "--env", "=value"),
    (["--env", ""], "--env"),
    (["--hostname", "a b"], "--hostname", "a b"),
    (["--hostname", "h" * 64], "--hostname", "63"),
    (["--hostname", "-x"], "--hostname", "-x"),
    (["--hostname", ""], "--hostname"),
    (["--mount", "nocolon"], "--mount", "nocolon"),
    (["--mount", "/tmp"], "--mount", "/tmp"),
    (["--mount", "/tmp:relative"], "--mount", "/tmp:relative"),
    (["--mount", ":/dst"], "--mount", ":/dst"),
    (["--mount", "/tmp:/"], "--mount", "over /"),
    (["--mount", "/tmp://"], "--mount", "over /"),
    (["--mount", "/tmp:/dst:rx"], "--mount", "rx"),
    (["--mount", "/tmp:/dst:rwx"], "--mount", "rwx"),
    (["--mount", "/tmp:/" + "x" * 300], "--mount", "too long"),
    (["--mount", "/tmp:/a"] * 9, "--mount", "at most 8"),
    (["--profile", "lax"], "--profile", "lax"),
    (["--tty=yes"], "--tty", "no value"),
    (["--diff=1"], "--diff", "no value"),
    (["--nosuch"], "--nosuch"),
    (["-m", "5M"], "-m"),
    (["--memor", "64M"], "--memor"),
    (["--profile", "locked", "--user", "www-data"], "--user"),
]

# In the right form, but not there or not possible: exit code 125.
MISSING = [
    (["--user", "nosuchuser"], "--user", "nosuchuser"),
    (["--user", "-1"], "--user", "-1"),
    (["--cwd", "/no/such"], "--cwd", "/no/such"),
    (["--cwd", "/etc/passwd"], "--cwd", "Not a directory"),
    (["--template", "nosuch"], "nosuch"),
    (["--level", "microvm"], "--level", "microvm"),
    (["--result", "/no/such/dir/file"], "--result", "/no/such/dir/file"),
    (["--result", "/tmp"], "--result", "/tmp"),
]

# The same for mounts; where there are no mounts at all, that is the message.
BAD_MOUNTS = [
    (["--mount", "/no/such/dir:/dst"], "--mount", "/no/such/dir"),
    (["--mount-unsafe", "--mount", "/dev/null:/dst"], "/dst", "neither a directory nor a file"),
    (["--mount-unsafe", "--mount", "/etc/passwd:/tmp"], "/tmp", "is a directory"),
    (["--mount", "/tmp:/etc/passwd"], "/etc/passwd", "not a directory"),
    (["--mount", "/tmp:/etc/passwd/x"], "/etc/passwd", "ot a directory"),
]


def test_bad_values_are_named():
    wrong = []
    no_mounts = differs("mounts")
    later = MISSING + [(o, "--mount", LEVEL) if no_mounts else (o, *parts) for o, *parts in BAD_MOUNTS]
    for code, (options, *parts) in [(2, row) for row in BAD] + [(125, row) for row in later]:
        try:
            run(*options, cmd=["true"]).refused(*parts, code=code)
        except Failed as e:
            wrong.append(f"{' '.join(options)[:80]}: {e}")
    check(not wrong, "\n".join(wrong))


def test_an_option_without_its_value_is_named():
    for name in ("memory", "cwd", "env", "mount", "result"):
        p = subprocess.run([tap.PROGRAM, "run", f"--{name}"], capture_output=True, timeout=20, stdin=subprocess.DEVNULL)
        equal(p.returncode, 2, name)
        has(p.stderr.decode(), f"--{name} needs a value", "the message")


def test_no_command_and_no_verb():
    has(plain("run").exits(2).errors, "no command", "the message")
    has(plain("run", "--").exits(2).errors, "no command", "the message")
    has(plain("run", "--memory", "64M").exits(2).errors, "no command", "the message")
    has(plain("fly").exits(125).errors, "fly", "the message")
    has(plain().exits(0).text, "cordon run", "the list of verbs")


def test_options_end_at_the_command():
    equal(plain("run", "echo", "--memory", "x", "--help").exits(0).text, "--memory x --help\n")
    equal(plain("run", "--", "echo", "--", "-n").exits(0).text, "-- -n\n")
    equal(plain("run", "--user=root", "--hostname=a=b", "--", "true").exits(2).out, b"")
    equal(plain("run", "--user=root", "--", "id", "-un").exits(0).text, "root\n")
    equal(plain("run", "--env=A=b=c", "--", "sh", "-c", "echo $A").exits(0).text, "b=c\n")


def test_the_last_of_one_option_counts():
    equal(run("--user", "root", "--user", "user", cmd=["id", "-un"]).exits(0).text, "user\n")
    equal(run("--hostname", "one", "--hostname", "two", cmd=["hostname"]).exits(0).text, "two\n")


def test_users():
    equal(run(cmd=["id"]).exits(0).text.split()[:2], ["uid=1000(user)", "gid=1000(user)"])
    has(run(cmd=["id", "-Gn"]).exits(0).text.split(), "sudo", "groups")
    equal(run("--user", "root", cmd=["id"]).exits(0).text, "uid=0(root) gid=0(root) groups=0(root)\n")
    for who, want in (
        ("0", "0:0:/root"),
        ("1000", "1000:1000:/home/user"),
        ("user", "1000:1000:/home/user"),
        ("www-data", "33:33:/var/www"),
        ("4242", "4242:4242:/"),
        ("65534", "65534:65534:/nonexistent"),
        ("65535", "65535:65535:/"),
    ):
        equal(run("--user", who, cmd="echo $(id -u):$(id -g):$HOME").exits(0).text, want + "\n", who)


def test_locked_users():
    for who, want in (("user", "1000"), ("root", "0"), ("33", "33"), (None, "1000")):
        options = [] if who is None else ["--user", who]
        if who == "root" and differs("root in the profile locked"):
            run("--profile", "locked", *options, cmd=["true"]).refused("--user root", "locked")
            continue
        d = run(
            "--profile",
            "locked",
            *options,
            cmd="id -u; grep -E 'Cap(Eff|Prm|Bnd)|NoNew' /proc/self/status",
            result=True,
        ).exits(0)
        told = [] if differs("/dev, /proc, /sys") else ["NoNewPrivs:", "1"]
        equal(d.text.split(), [want, "CapPrm:", "0" * 16, "CapEff:", "0" * 16, "CapBnd:", "0" * 16, *told])
        equal((d.result["profile"], d.result["restrictions"]["no_new_privs"]), ("locked", True))


def test_directories():
    for options, want in (
        ([], "/home/user"),
        (["--user", "root"], "/root"),
        (["--cwd", "/"], "/"),
        (["--cwd", "/usr/../tmp/"], "/tmp"),
        (["--user", "nobody"], "/"),
        (["--cwd", "/var/run"], "/run"),
    ):
        equal(run(*options, cmd=["pwd", "-P"]).exits(0).text, want + "\n", options)


def test_an_unreadable_directory_is_refused():
    run("--cwd", "/root", cmd=["true"]).refused("--cwd /root", "Permission denied")
    run("--cwd", "/root", "--profile", "locked", cmd=["true"]).refused("--cwd /root", "Permission denied")
    run("--cwd", "/root", "--user", "root", cmd=["true"]).exits(0)


def test_the_callers_directory_does_not_matter():
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0)
    try:
        equal(run(cmd=["pwd"], cwd=folder).exits(0).text, "/home/user\n")
        p = subprocess.Popen(
            ["sh", "-c", 'cd "$1" && shift && rmdir "$0" && exec "$@"', folder, folder, tap.PROGRAM, "run", *tap.level_options(()), "--", "pwd"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        equal(finish(p).exits(0).text, "/home/user\n", "from a deleted directory")
    finally:
        if os.path.isdir(folder):
            os.rmdir(folder)


def test_host_name():
    equal(run(cmd=["hostname"]).exits(0).text, "cordon\n")
    for name in ("a", "box-1.example.com", "h" * 63, "9"):
        equal(run("--hostname", name, cmd=["hostname"]).exits(0).text, name + "\n")
    equal(run("--user", "root", cmd="hostname x 2>&1; hostname").text.splitlines()[-1], "cordon", "cannot be changed")


# --- environment -------------------------------------------------------------------------------------


SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/cordon/bin"
DEFAULT_ENV = {
    "PATH": "/home/user/.local/bin:" + SYSTEM_PATH,
    **({"NPM_CONFIG_GLOBALCONFIG": "/opt/cordon/npmrc"} if TEMPLATE == "host" else {}),
    "HOME": "/home/user",
    "USER": "user",
    "LOGNAME": "user",
    "SHELL": "/bin/bash",
}


def test_nothing_of_the_callers_environment_gets_in():
    mine = {
        **os.environ,
        "CANARY": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "LANG": "de_DE.UTF-8",
        "BASH_ENV": "/x",
        "PYTHONPATH": "/x",
        "LC_ALL": "C",
        "TERM": "vt100",
        "TMPDIR": "/x",
        "HOME": "/x",
        "SHELL": "/x",
        "USER": "x",
    }
    equal(environment(run(cmd=["env", "-0"], env=mine)), DEFAULT_ENV)
    equal(environment(run(cmd=["env", "-0"], env={})), DEFAULT_ENV, "from an empty one")
    equal(
        environment(run("--user", "root", cmd=["env", "-0"], env=mine)),
        {"PATH": SYSTEM_PATH, "HOME": "/root", "USER": "root", "LOGNAME": "root", "SHELL": "/bin/bash"},
    )
    got = environment(run("--env", "PATH=/usr/bin:/bin", cmd=["env", "-0"]))
    equal((got["PATH"], got.get("NPM_CONFIG_GLOBALCONFIG")), ("/usr/bin:/bin", None), "where PATH is given, npm's programs would not be found")


def test_npm_needs_no_root():
    """npm install -g by a user: the program is found, also by a login shell. Root's packages are the machine's."""
    if run(cmd="command -v npm").rc != 0 or TEMPLATE != "host":
        raise Skip("no npm in the template host")
    files = {"package/package.json": b'{"name": "tool", "version": "1.0.0", "bin": {"tool": "tool.js"}}',
             "package/tool.js": b"#!/usr/bin/env node\nconsole.log('found')\n"}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o755
            tar.addfile(member, io.BytesIO(text))
    commands = "cat > tool.tgz; npm install -g --offline --no-audit --no-fund ./tool.tgz >&2 && tool && bash -lc tool && command -v tool && sudo -n npm config get prefix"
    lines = run(cmd=commands, data=archive.getvalue()).exits(0).text.splitlines()
    equal(lines[:3], ["found", "found", "/home/user/.local/bin/tool"])
    check(lines[3] in ("/usr", "/usr/local"), lines)


def test_variables_that_are_set():
    got = environment(
        run(
            "--env",
            "A=1",
            "--env",
            "HOME=/tmp",
            "--env",
            "EMPTY=",
            "--env",
            "LINES=a\nb=c",
            "--env",
            "UTF=\u00e9\u20ac",
            "--env",
            "odd.name-x=1",
            cmd=["env", "-0"],
        )
    )
    equal(
        got,
        {
            **DEFAULT_ENV,
            "A": "1",
            "HOME": "/tmp",
            "EMPTY": "",
            "LINES": "a\nb=c",
            "UTF": "\u00e9\u20ac",
            "odd.name-x": "1",
        },
    )


def test_the_last_of_one_variable_counts():
    equal(
        environment(run("--env", "A=1", "--env", "B=2", "--env", "A=3", cmd=["env", "-0"])),
        {**DEFAULT_ENV, "A": "3", "B": "2"},
    )


def test_what_the_command_inherits():
    """Descriptors, signal settings, umask, limits and session are those of a fresh process."""
    extra = [os.dup(2) for _ in range(20)]

    def spoil():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD])
        os.umask(0)
        os.nice(5)

    code = (
        "import os\n"
        "print(sorted(int(f) for f in os.listdir('/proc/self/fd'))[:-1])\n"
        "s = dict(l.split(':\\t') for l in open('/proc/self/status').read().splitlines() if ':\\t' in l)\n"
        "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), oct(os.umask(0)))\n"
        "print(s.get('SigBlk'))\n"
        "print(os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(), os.getppid())\n"
    )
    d = python(code, preexec_fn=spoil, pass_fds=extra).exits(0)
    blocked = None if differs("/dev, /proc, /sys") else "0" * 16
    equal(d.text.splitlines(), ["[0, 1, 2]", "[] 0o22", str(blocked), "True True 1"])
    for fd in extra:
        os.close(fd)
    ignored = run(cmd=["grep", "SigIgn", "/proc/self/status"], preexec_fn=spoil)
    if differs("/dev, /proc, /sys"):
        equal(ignored.exits(1).text, "")
    else:
        equal(ignored.exits(0).text.split()[1], "0" * 16, "ignored signals")
    for sig in (signal.SIGINT, signal.SIGHUP):
        run(cmd=f"kill -{sig.value} $$; exit 3", preexec_fn=spoil).exits(128 + sig)


if __name__ == "__main__":
    tap.main(globals())

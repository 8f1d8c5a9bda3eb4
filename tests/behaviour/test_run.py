#!/usr/bin/python3 -B
"""test_run.py - cordon run: options, exit codes, streams, signals, terminals, results, children."""
import concurrent.futures
import fcntl
import hashlib
import os
import pty
import random
import re
import resource
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time

import tap
from tap import Failed, Skip, check, equal, finish, has, python, run, start

MIB = 1 << 20


# --- exit codes -------------------------------------------------------------------------------------


def test_every_exit_code_is_passed_on():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda n: run(cmd=f"exit {n}"), range(256)))
    equal([d.rc for d in ends], list(range(256)), "exit codes")
    equal([d.err for d in ends if d.err], [], "messages")


def test_a_signal_becomes_128_plus_its_number():
    for sig in (1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 31, 34, 64):
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
        has(
            run("--mount", f"{folder}:/mnt/it", cmd=["/mnt/it/garbage"]).exits(126).errors,
            "xec format error",
            "the message",
        )


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
        equal(d.exits(0).text, "found\n")
        run("--mount", f"{folder}:/mnt", "--env", "PATH=/mnt/a:/mnt/b", cmd=["prog"]).exits(126)


# --- options ----------------------------------------------------------------------------------------

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
    (["--user", "nosuchuser"], "--user", "nosuchuser"),
    (["--user", "65536"], "--user", "65536"),
    (["--user", "4294967295"], "--user", "4294967295"),
    (["--user", "-1"], "--user", "-1"),
    (["--user", "u" * 64], "--user", "too long"),
    (["--cwd", "relative"], "--cwd", "relative"),
    (["--cwd", "/no/such"], "--cwd", "/no/such"),
    (["--cwd", "/etc/passwd"], "--cwd", "Not a directory"),
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
    (["--mount", "/no/such/dir:/dst"], "--mount", "/no/such/dir"),
    (["--mount", "/dev/null:/dst"], "/dst", "neither a directory nor a file"),
    (["--mount", "/tmp:/" + "x" * 300], "--mount", "too long"),
    (["--mount", "/etc/passwd:/tmp"], "/tmp", "is a directory"),
    (["--mount", "/tmp:/etc/passwd"], "/etc/passwd", "not a directory"),
    (["--mount", "/tmp:/etc/passwd/x"], "/etc/passwd", "ot a directory"),
    (["--mount", "/tmp:/a"] * 9, "--mount", "at most 8"),
    (["--template", "nosuch"], "nosuch"),
    (["--profile", "lax"], "--profile", "lax"),
    (["--level", "microvm"], "--level", "microvm"),
    (["--tty=yes"], "--tty", "no value"),
    (["--diff=1"], "--diff", "no value"),
    (["--nosuch"], "--nosuch"),
    (["-m", "5M"], "-m"),
    (["--memor", "64M"], "--memor"),
    (["--result", "/no/such/dir/file"], "--result", "/no/such/dir/file"),
    (["--result", "/tmp"], "--result", "/tmp"),
    (["--profile", "locked", "--user", "www-data"], "--user"),
]


def test_bad_values_are_named():
    wrong = []
    for options, *parts in BAD:
        try:
            run(*options, cmd=["true"]).refused(*parts)
        except Failed as e:
            wrong.append(f"{' '.join(options)[:80]}: {e}")
    check(not wrong, "\n".join(wrong))


def test_an_option_without_its_value_is_named():
    for name in ("memory", "cwd", "env", "mount", "result"):
        p = subprocess.run([tap.PROGRAM, "run", f"--{name}"], capture_output=True, timeout=20, stdin=subprocess.DEVNULL)
        equal(p.returncode, 125, name)
        has(p.stderr.decode(), f"--{name} needs a value", "the message")


def plain(*words):
    p = subprocess.run([tap.PROGRAM, *words], capture_output=True, timeout=20, stdin=subprocess.DEVNULL)
    return tap.Done(p.returncode, p.stdout, p.stderr)


def test_no_command_and_no_verb():
    has(plain("run").exits(125).errors, "no command", "the message")
    has(plain("run", "--").exits(125).errors, "no command", "the message")
    has(plain("run", "--memory", "64M").exits(125).errors, "no command", "the message")
    has(plain("fly").exits(125).errors, "fly", "the message")
    plain().exits(125)


def test_options_end_at_the_command():
    equal(plain("run", "echo", "--memory", "x", "--help").exits(0).text, "--memory x --help\n")
    equal(plain("run", "--", "echo", "--", "-n").exits(0).text, "-- -n\n")
    equal(plain("run", "--user=root", "--hostname=a=b", "--", "true").exits(125).out, b"")
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
        d = run(
            "--profile",
            "locked",
            *options,
            cmd="id -u; grep -E 'Cap(Eff|Prm|Bnd)|NoNew' /proc/self/status",
            result=True,
        ).exits(0)
        equal(d.text.split(), [want, "CapPrm:", "0" * 16, "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"])
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
            ["sh", "-c", 'cd "$1" && rmdir "$1" && exec "$2" run -- pwd', "sh", folder, tap.PROGRAM],
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


# --- environment ------------------------------------------------------------------------------------


def environment(d):
    words = d.exits(0).out.split(b"\0")[:-1]
    names = [w.partition(b"=")[0].decode() for w in words]
    equal(len(names), len(set(names)), f"a name twice: {names}")
    return {n: w.partition(b"=")[2].decode() for n, w in zip(names, words)}


DEFAULT_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/cordon/bin",
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
        {**DEFAULT_ENV, "HOME": "/root", "USER": "root", "LOGNAME": "root"},
    )


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
        "print(s['SigBlk'], s['Umask'], s['SigQ'].split('/')[0] is not None)\n"
        "print(os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(), os.getppid())\n"
    )
    d = python(code, preexec_fn=spoil, pass_fds=extra).exits(0)
    equal(d.text.splitlines(), ["[0, 1, 2]", "0000000000000000 0022 True", "True True 1"])
    ignored = run(cmd=["grep", "SigIgn", "/proc/self/status"], preexec_fn=spoil).exits(0)
    for fd in extra:
        os.close(fd)
    equal(ignored.text.split()[1], "0" * 16, "ignored signals")


# --- streams ----------------------------------------------------------------------------------------


def test_ten_mebibytes_both_ways():
    data = random.Random(1).randbytes(10 * MIB)
    d = run(cmd=["cat"], data=data, result=True).exits(0)
    check(d.out == data, f"{len(d.out)} bytes came back, or other ones")
    equal(d.err, b"")
    equal(d.result["output_bytes"], 10 * MIB, "output_bytes")
    equal(run(cmd=["sha256sum"], data=data).exits(0).text.split()[0], hashlib.sha256(data).hexdigest())


def test_both_outputs_at_once_and_apart():
    code = (
        "import os,threading\n"
        "def put(fd, c):\n"
        "    for i in range(512): os.write(fd, c * 8192)\n"
        "t = [threading.Thread(target=put, args=a) for a in ((1, b'o'), (2, b'e'))]\n"
        "[x.start() for x in t]; [x.join() for x in t]\n"
    )
    d = python(code).exits(0)
    check(d.out == b"o" * 4 * MIB and d.err == b"e" * 4 * MIB, f"{len(d.out)} and {len(d.err)} bytes, or mixed")


def test_input_that_nobody_reads():
    data = b"x" * (10 * MIB)
    equal(run(cmd=["true"], data=data).exits(0).out, b"")
    equal(run(cmd=["head", "-c", "10"], data=data).exits(0).out, b"x" * 10)
    equal(run(cmd="exec 0<&-; sleep 0.2; echo done", data=data).exits(0).text, "done\n")


def test_input_ends_when_the_callers_does():
    p = start(cmd="cat; echo end", stdin=subprocess.PIPE)
    p.stdin.write(b"one\n")
    p.stdin.flush()
    check(select.select([p.stdout], [], [], 20)[0], "nothing came through")
    equal(os.read(p.stdout.fileno(), 100), b"one\n", "line by line")
    equal(finish(p, b"").exits(0).text, "end\n")


def test_closed_descriptors():
    """Each combination of 0, 1 and 2 closed; the result file must not be hit by stray output."""
    for mask in range(8):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r")
            closing = " ".join(f"{fd}{'<' if fd == 0 else '>'}&-" for fd in range(3) if mask & 1 << fd)
            p = subprocess.Popen(
                [
                    "sh",
                    "-c",
                    f'exec "$1" run --result "$2" -- sh -c "$3" {closing}',
                    "sh",
                    tap.PROGRAM,
                    path,
                    "cat; echo out; echo err >&2; exit 7",
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            d = finish(p).exits(7)
            equal(tap.read_result(path, 7)["state"], "exited")
            equal((d.out, d.err), (b"" if mask & 2 else b"out\n", b"" if mask & 4 else b"err\n"), f"closed {mask:03b}")


def test_a_message_of_ours_with_everything_closed():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "r")
        p = subprocess.Popen(
            ["sh", "-c", 'exec "$1" run --result "$2" -- no-such-command 0<&- 1>&- 2>&-', "sh", tap.PROGRAM, path]
        )
        equal(p.wait(timeout=30), 127)
        has(tap.read_result(path, 127)["error"]["message"], "no-such-command")


def test_the_reader_of_stdout_goes_away():
    p = start(cmd=["yes"])
    os.read(p.stdout.fileno(), 100)
    p.stdout.close()
    equal(p.wait(timeout=30), 128 + signal.SIGPIPE)
    p.stderr.close()


def test_stderr_goes_on_without_stdout():
    p = start(cmd="yes; echo still here >&2; exit 3")
    os.read(p.stdout.fileno(), 100)
    p.stdout.close()
    p.stdout = None
    d = finish(p).exits(3)
    has(d.errors, "still here\n")


def test_a_slow_reader_loses_nothing():
    p = start(cmd=["head", "-c", str(2 * MIB), "/dev/zero"])
    got = 0
    time.sleep(0.3)
    while chunk := os.read(p.stdout.fileno(), 65536):
        got += len(chunk)
        if got < 400000:
            time.sleep(0.02)
    equal(p.wait(timeout=30), 0)
    p.stdout.close()
    p.stderr.close()
    equal(got, 2 * MIB)


def test_output_to_files_and_full_devices():
    with tempfile.TemporaryFile() as f:
        f.write(b"before\n")
        f.flush()
        run(cmd=["head", "-c", str(3 * MIB), "/dev/zero"], stdout=f).exits(0)
        equal(f.tell(), 3 * MIB + 7)
    with open("/dev/full", "wb") as full:
        d = run(cmd="echo lost", stdout=full)
    check(d.rc != 0 or d.err, "output was lost without a word: exit code 0 and no message")


def test_nonblocking_and_shared_output():
    """The caller's descriptors keep their flags: they may be shared with others."""
    r, w = os.pipe()
    os.set_blocking(w, False)
    p = start(cmd=["head", "-c", str(MIB), "/dev/zero"], stdout=w)
    os.close(w)
    got = 0
    while chunk := os.read(r, 65536):
        got += len(chunk)
        time.sleep(0.001)
    os.close(r)
    finish(p).exits(0)
    equal(got, MIB, "bytes through a non-blocking pipe")
    r, w = os.pipe()
    run(cmd=["true"], stdout=w, stdin=r).exits(0)
    check(os.get_blocking(w) and os.get_blocking(r), "flags of the caller's pipe were changed")
    os.close(r)
    os.close(w)


def test_dev_stdout_can_be_opened_again():
    script = "echo a > /dev/stdout; echo b > /dev/stderr; cat /dev/stdin; echo c > /dev/fd/1; echo d >> /proc/self/fd/1"
    for options in (
        [],
        ["--user", "root"],
        ["--user", "nobody"],
        ["--profile", "locked"],
        ["--user", "4242"],
        ["--read-only"],
    ):
        d = run(*options, cmd=script, data=b"in\n").exits(0)
        equal((d.text, d.errors), ("a\nin\nc\nd\n", "b\n"), options)


# --- signals ----------------------------------------------------------------------------------------


def wait_for(p, text):
    """Reads p's output up to this text."""
    got = b""
    while text not in got:
        check(select.select([p.stdout], [], [], 30)[0], f"no {text!r}, only {got!r}")
        chunk = os.read(p.stdout.fileno(), 4096)
        check(chunk, f"ended without {text!r}: {got!r}")
        got += chunk
    return got


def test_signals_to_cordon_reach_the_command():
    for sig in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"):
        p = start(cmd=f"trap 'echo got {sig}; exit 9' {sig}; echo ready; while :; do sleep 0.05; done")
        wait_for(p, b"ready")
        p.send_signal(getattr(signal, "SIG" + sig))
        has(finish(p).exits(9).text, f"got {sig}")


def test_a_signal_ends_a_command_that_does_not_catch_it():
    for sig in (signal.SIGINT, signal.SIGTERM):
        p = start(cmd="echo ready; exec sleep 1000")
        wait_for(p, b"ready")
        p.send_signal(sig)
        finish(p).exits(128 + sig)


def test_a_signal_reaches_the_children_too():
    p = start(
        cmd="sh -c 'trap \"echo child; exit\" TERM; echo ready; while :; do sleep 0.05; done' & wait; wait; exit 4"
    )
    wait_for(p, b"ready")
    p.send_signal(signal.SIGTERM)
    d = finish(p)
    has(d.text, "child") if d.rc == 4 else equal(d.rc, 143)


def test_a_signal_during_the_start():
    """At any moment before the command runs: cordon ends, soon, and nothing is left."""
    for i in range(30):
        p = start(cmd=["sleep", "1000"])
        time.sleep(i * 0.0004)
        p.send_signal(signal.SIGTERM)
        d = finish(p, timeout=20)
        check(d.rc in (-signal.SIGTERM, 128 + signal.SIGTERM), f"exit code {d.rc}: {d.errors}")


def test_signals_that_the_command_ignores():
    p = start(cmd="trap '' INT TERM; echo ready; sleep 0.5; echo survived")
    wait_for(p, b"ready")
    for sig in (signal.SIGINT, signal.SIGTERM):
        p.send_signal(sig)
    has(finish(p).exits(0).text, "survived\n")


def test_a_stopped_cordon_goes_on():
    p = start(cmd="echo ready; sleep 0.2; head -c 300000 /dev/zero; exit 6")
    wait_for(p, b"ready\n")
    p.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    p.send_signal(signal.SIGCONT)
    equal(len(finish(p).exits(6).out), 300000)


# --- terminals --------------------------------------------------------------------------------------


class Terminal:
    """cordon run --tty with a terminal of its own, which is also its controlling terminal."""

    def __init__(self, *options, cmd, rows=50, cols=132):
        self.master, self.slave = pty.openpty()
        self.resize(rows, cols)
        self.before = termios.tcgetattr(self.slave)
        self.got = b""
        self.p = start(
            "--tty",
            *options,
            cmd=cmd,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, data):
        os.write(self.master, data)

    def until(self, text):
        end = time.monotonic() + 30
        while text not in self.got:
            check(
                time.monotonic() < end and select.select([self.master], [], [], 1)[0] or time.monotonic() < end,
                f"no {text!r} on the terminal, only {self.got!r}",
            )
            if select.select([self.master], [], [], 0.1)[0]:
                self.got += os.read(self.master, 65536)
            check(
                self.p.poll() is None or select.select([self.master], [], [], 0.1)[0] or text in self.got,
                f"ended without {text!r}: {self.got!r}",
            )

    def end(self, code):
        try:
            rc = self.p.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
            raise Failed(f"hangs; the terminal shows {self.got!r}") from None
        while select.select([self.master], [], [], 0)[0]:
            self.got += os.read(self.master, 65536)
        after = termios.tcgetattr(self.slave)
        os.close(self.master)
        os.close(self.slave)
        equal(rc, code, f"exit code; the terminal shows {self.got!r}")
        equal(after, self.before, "settings of the caller's terminal afterwards")
        return self.got.decode("utf-8", "replace")


def test_tty_is_a_terminal_of_the_right_size():
    t = Terminal(
        cmd="test -t 0 && test -t 1 && test -t 2 && stty size; tty; echo $TERM; stat -Lc %U /dev/stdin; exit 5"
    )
    equal(t.end(5).split(), ["50", "132", "/dev/pts/0", "xterm-256color", "user"])


def test_tty_passes_control_c():
    t = Terminal(cmd="echo ready; exec sleep 1000")
    t.until(b"ready")
    t.type(b"\x03")
    t.end(130)
    t = Terminal(cmd="trap 'echo caught; exit 8' INT; echo ready; while :; do sleep 0.05; done")
    t.until(b"ready")
    t.type(b"\x03")
    has(t.end(8), "caught")


def test_tty_passes_input_and_end_of_file():
    t = Terminal(cmd="stty -echo; echo ready; read line; echo \"<$line>\"; cat; echo over; exit 2")
    t.until(b"ready")
    t.type(b"hello\n")
    t.until(b"<hello>")
    t.type(b"more\n\x04")
    text = t.end(2)
    has(text, "more\r\n")
    has(text, "over\r\n")


def test_tty_is_resized():
    t = Terminal(cmd="trap 'stty size' WINCH; echo ready; while ! read x; do :; done; exit 0")
    t.until(b"ready")
    t.resize(33, 77)
    t.until(b"33 77")
    t.resize(20, 40)
    t.until(b"20 40")
    t.type(b"\n")
    t.end(0)


def test_tty_job_control_and_foreground():
    t = Terminal("--user", "root", cmd=["bash", "-i"])
    t.type(b"PS1='$ '; sleep 1000\n")
    time.sleep(0.4)
    t.type(b"\x1a")
    t.until(b"Stopped")
    t.type(b"fg\n")
    time.sleep(0.2)
    t.type(b"\x03")
    time.sleep(0.2)
    t.type(b"exit 11\n")
    t.end(11)


def test_an_interactive_shell_says_who_and_where():
    t = Terminal("--hostname", "box", cmd=["bash", "-i"])
    t.until(b"user@box")
    t.type(b"cd /tmp; echo done\n")
    t.until(b"/tmp")
    t.type(b"exit 4\n")
    t.end(4)


def test_python_has_its_short_name():
    """By PATH, in a login shell, and for root by sudo."""
    run(cmd="python -c 'import sys; sys.exit(sys.version_info < (3,))'").exits(0)
    run(cmd=["bash", "-lc", "python -c 'print(1)'"]).exits(0)
    run(cmd="sudo python -c 'print(1)'").exits(0)


def test_tty_is_restored_after_every_end():
    Terminal(cmd=["no-such-command"]).end(127)
    Terminal("--timeout", "200ms", cmd=["sleep", "1000"]).end(124)
    Terminal("--memory", "nonsense", cmd=["true"]).end(125)
    Terminal(cmd="kill -9 $$").end(137)
    t = Terminal(cmd="echo ready; sleep 1000")
    t.until(b"ready")
    t.p.send_signal(signal.SIGTERM)
    t.end(143)


def test_tty_without_a_terminal_outside():
    d = run("--tty", cmd="test -t 0 && test -t 1 && echo yes; stty size; exit 3").exits(3)
    equal(d.text, "yes\r\n24 80\r\n")
    # the terminal's echo and cat's own line
    equal(run("--tty", cmd="cat", data=b"from a pipe\n", timeout=10).exits(0).text, "from a pipe\r\n" * 2)


def test_tty_large_output():
    d = run("--tty", cmd="stty raw -echo; head -c 3000000 /dev/zero").exits(0)
    equal(len(d.out), 3000000)


def test_without_tty_there_is_no_terminal():
    d = run(cmd="test -t 0 || test -t 1 || test -t 2 || echo none; : < /dev/tty").text
    equal(d, "none\n")


# --- limits, each hit for real ----------------------------------------------------------------------

HOG = "x = []\nwhile True: x.append(bytearray(1 << 20))"


def test_memory_hog():
    d = python(HOG, "--memory", "64M", result=True).exits(137).limit("memory")
    equal((d.result["state"], d.result["signal"]), ("killed", 9))
    check(d.result["memory_peak_bytes"] <= 64 * MIB, f"peak {d.result['memory_peak_bytes']}")
    d = python(HOG, "--memory", "64M", "--profile", "locked", "--user", "root", result=True).exits(137).limit("memory")


def test_memory_hog_in_a_child():
    d = run("--memory", "64M", cmd=["bash", "-c", f"python3 -c '{HOG}'; echo child $?; exit 3"], result=True).exits(3)
    equal(d.text, "child 137\n")
    d.limit("memory")


def test_memory_hog_in_files():
    """What is written is memory too; the cell ends, not the machine."""
    d = run("--memory", "32M", "--disk", "512M", cmd="head -c 300M /dev/zero > /tmp/big; echo $?", result=True)
    d.limit("memory")
    check(d.result["memory_peak_bytes"] <= 32 * MIB, "more than the limit")


def test_fork_bomb():
    code = (
        "import os,time\nn=0\n"
        "while True:\n"
        "    try: pid = os.fork()\n"
        "    except OSError as e: print(n, e.errno); break\n"
        "    if pid == 0: time.sleep(1000)\n"
        "    n += 1\n"
    )
    d = python(code, "--pids", "32", result=True).exits(0).limit("pids")
    count, number = map(int, d.text.split())
    equal(number, 11, "errno")
    check(20 <= count < 32, f"{count} children with --pids 32")
    check(d.result["pids_peak"] is None or d.result["pids_peak"] <= 32, f"pids_peak {d.result['pids_peak']}")


def test_fork_bomb_that_goes_on():
    d = run(
        "--pids", "64", "--timeout", "1s", cmd=["bash", "-c", "b() { b | b & }; b; while :; do b; done"], result=True
    )
    check(d.rc in (124, 254, 1, 137), f"exit code {d.rc}")
    check(d.result["limit"] in ("pids", "timeout"), d.result["limit"])


def test_thread_bomb():
    code = (
        "import threading,time\nn=0\n"
        "try:\n"
        "    while True:\n"
        "        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start(); n += 1\n"
        "except RuntimeError: print(n, flush=True)\n"
        "import os; os._exit(0)"
    )
    d = python(code, "--pids", "20", result=True).exits(0).limit("pids")
    check(int(d.text) < 20, f"{d.text} threads")


def test_disk_filler():
    for where in ("/home/user", "/tmp", "/dev/shm", "/var/tmp"):
        d = (
            run(
                "--disk",
                "8M",
                cmd=f"head -c 100M /dev/zero > {where}/fill; echo $?; stat -c %s {where}/fill",
                result=True,
            )
            .exits(0)
            .limit("disk")
        )
        size = int(d.text.split()[1])
        check(7 * MIB < size <= 8 * MIB, f"{size} bytes in {where}")
        has(d.errors, "No space left", where)
    d = run("--disk", "8M", "--read-only", cmd="head -c 100M /dev/zero > /tmp/fill; echo $?", result=True).exits(0)
    equal(d.text, "1\n")


def test_disk_quota_is_one_for_all_places():
    script = (
        "for d in /home/user /tmp /dev/shm /var/tmp; do head -c 3M /dev/zero > $d/x; done 2>/dev/null; "
        "cat /home/user/x /tmp/x /dev/shm/x /var/tmp/x | wc -c"
    )
    size = int(run("--disk", "8M", cmd=script).exits(0).text)
    check(7 * MIB < size <= 8 * MIB, f"{size} bytes in all")


def test_disk_is_free_again_after_removal():
    run("--disk", "8M", cmd="for i in 1 2 3 4 5; do head -c 6M /dev/zero > /tmp/f || exit 1; rm /tmp/f; done").exits(0)


def test_inode_filler():
    code = (
        "import os\nn=0\n"
        "try:\n"
        "    while True: open(f'/tmp/f{n}', 'x').close(); n += 1\n"
        "except OSError as e: print(n, e.errno)\n"
    )
    d = python(code, "--inodes", "500", result=True).exits(0).limit("inodes")
    count, number = map(int, d.text.split())
    equal(number, 28, "errno")
    check(400 < count <= 564, f"{count} files with --inodes 500")


def test_too_many_open_files():
    code = "import os\nn=0\n" "try:\n" "    while True: os.dup(0); n += 1\n" "except OSError as e: print(n, e.errno)\n"
    d = python(code, "--nofile", "64").exits(0)
    equal(d.text, "61 24\n")
    equal(
        run("--nofile", "64", cmd="ulimit -Sn; ulimit -Hn; ulimit -n 65 2>/dev/null || echo no").text.split(),
        ["64", "64", "no"],
    )
    equal(run("--nofile", "64", "--user", "root", cmd="ulimit -Hn 128 2>/dev/null || echo no").text, "no\n", "root")


def test_endless_output():
    d = run("--output-limit", "1M", cmd=["yes"], result=True).exits(141).limit("output")
    equal((len(d.out), d.result["output_bytes"], d.result["output_truncated"]), (MIB, MIB, True))
    d = run("--output-limit", "100", cmd="yes >&2; echo $?", result=True).limit("output")
    check(len(d.out) + len(d.err) <= 100, "stderr counts, too")
    d = run("--output-limit", "6", cmd="echo hello", result=True).exits(0).limit(None)
    equal((d.text, d.result["output_truncated"]), ("hello\n", False), "just within the limit")
    d = run("--output-limit", "5", cmd="echo hello", result=True).limit("output")
    equal(d.text, "hello", "one byte over it")
    d = run("--tty", "--output-limit", "1000", cmd=["yes"], result=True).limit("output")
    equal(len(d.out), 1000, "on a terminal")


def test_output_limit_ends_what_ignores_the_signal():
    """A writer that ignores SIGPIPE and errors cannot go on for ever unnoticed by its timeout."""
    code = (
        "import os,signal\nsignal.signal(signal.SIGPIPE, signal.SIG_IGN)\n"
        "while True:\n"
        "    try: os.write(1, b'x' * 4096)\n"
        "    except OSError: pass\n"
    )
    d = python(code, "--output-limit", "64K", "--timeout", "500ms", result=True).exits(124)
    equal((len(d.out), d.result["output_truncated"]), (65536, True))


def test_endless_loop():
    d = run("--timeout", "300ms", cmd="while :; do :; done", result=True).exits(124).limit("timeout")
    equal((d.result["state"], d.result["error"]), ("killed", None))
    check(d.result["wall_ms"] >= 300, f"wall_ms {d.result['wall_ms']}")


def test_sleeping_for_ever():
    run("--timeout", "200ms", cmd=["sleep", "infinity"], result=True).exits(124).limit("timeout")
    run("--timeout", "200ms", cmd="trap '' TERM INT HUP; while :; do sleep 1; done", result=True).exits(124).limit(
        "timeout"
    )
    run("--timeout", "200ms", cmd="kill -STOP $$", result=True).exits(124).limit("timeout")
    run("--timeout", "200ms", cmd="setsid sleep 1000", result=True).exits(124).limit("timeout")


def test_timeout_keeps_what_was_printed():
    d = run("--timeout", "300ms", cmd="echo out; echo err >&2; sleep 1000").exits(124)
    equal((d.text, d.errors), ("out\n", "err\n"))


def test_timeout_that_is_not_reached():
    d = run("--timeout", "30s", cmd="exit 4", result=True).exits(4).limit(None)
    check(d.result["wall_ms"] < 30000, "waited for it")


def test_timeout_with_children_that_hold_the_output():
    d = run("--timeout", "300ms", cmd="(setsid sh -c 'trap \"\" TERM; sleep 1000' &) ; sleep 1000", result=True)
    d.exits(124).limit("timeout")


def test_cpu_share():
    spin = "for i in 1 2; do sh -c 'while :; do :; done' & done; sleep 1000"
    r = run("--cpus", "0.2", "--timeout", "1500ms", cmd=spin, result=True).exits(124).result
    check(
        r["cpu_ms"] <= 0.2 * r["wall_ms"] + 150, f"{r['cpu_ms']} ms of processor in {r['wall_ms']} ms with --cpus 0.2"
    )
    free = run("--timeout", "1500ms", cmd=spin, result=True).exits(124).result
    if free["cpu_ms"] < 0.4 * free["wall_ms"]:
        raise Skip(f"the machine is busy: {free['cpu_ms']} ms of processor in {free['wall_ms']} ms without a limit")


# --- results ----------------------------------------------------------------------------------------


def test_result_of_a_plain_run():
    r = run(cmd="echo hello; head -c 100000 /dev/zero > f", result=True).exits(0).result
    equal((r["state"], r["exit_code"], r["signal"], r["limit"], r["error"]), ("exited", 0, None, None, None))
    equal((r["output_bytes"], r["output_truncated"], r["level"], r["profile"]), (6, False, "container", "standard"))
    check(re.fullmatch(r"[0-9a-f]{16}", r["id"]), r["id"])
    check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", r["started_at"]), r["started_at"])
    check(100000 <= r["disk_bytes"] < 300000, f"disk_bytes {r['disk_bytes']}")
    check(r["memory_peak_bytes"] > 100000, f"memory_peak_bytes {r['memory_peak_bytes']}")
    check(r["pids_peak"] is None or 2 <= r["pids_peak"] <= 6, f"pids_peak {r['pids_peak']}")
    restrictions = r["restrictions"]
    for key in (
        "namespaces",
        "ids",
        "rootless",
        "seccomp",
        "capabilities",
        "landlock",
        "network",
        "egress_redirect",
        "memory_limit",
        "cpu_limit",
        "pids_limit",
        "missing",
    ):
        check(key in restrictions, f"restrictions has no {key}")
    equal((restrictions["ids"], restrictions["rootless"], restrictions["missing"]), (65536, False, None))


def test_results_of_failures():
    for options, cmd, code, fault in (
        ([], ["no-such"], 127, "user"),
        ([], ["/etc"], 126, "user"),
        (["--cwd", "/nope"], ["true"], 125, "user"),
        (["--user", "nope"], ["true"], 125, "user"),
        (["--memory", "x"], ["true"], 125, "user"),
        (["--mount", "/nope:/x"], ["true"], 125, "user"),
        (["--level", "gvisor"], ["true"], 125, "user"),
        (["--nosuch"], ["true"], 125, "user"),
        (["--mount", "/etc:/etc/passwd"], ["true"], 125, "user"),
        (["--template", "nope"], ["true"], 125, "user"),
    ):
        d = run(*options, cmd=cmd, result=True).exits(code)
        equal((d.result["state"], d.result["error"] and d.result["error"]["fault"]), ("failed", fault), options or cmd)
        equal("cordon: " + d.result["error"]["message"] + "\n", d.errors, "the message in both places")


def test_result_named_after_the_bad_option():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "r")
        for i, options in enumerate(
            (["--memory", "x", "--result", path], ["--nosuch", "--result", path], ["--memory", "x", f"--result={path}"])
        ):
            run(*options, cmd=["true"]).exits(125)
            check(os.path.exists(path), f"no result was written with {options[:2]} before --result")
            equal(tap.read_result(path, 125)["error"]["fault"], "user")
            os.unlink(path)
        # But what belongs to the command is not ours.
        plain("run", "--memory", "x", "--", "echo", "--result", path).exits(125)
        check(not os.path.exists(path), "an argument of the command was taken for ours")


def test_result_without_a_command():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "r")
        plain("run", "--result", path).exits(125)
        has(tap.read_result(path, 125)["error"]["message"], "no command")


def test_result_replaces_and_cannot_be_lost():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "r")
        with open(path, "w") as f:
            f.write("x" * 100000)
        run("--result", path, cmd=["true"]).exits(0)
        tap.read_result(path, 0)
    d = run("--result", "/dev/full", cmd=["true"]).exits(125)
    has(d.errors, "--result")


def test_result_with_odd_names_is_still_json():
    d = run(cmd=["no\n\"such\\\x1b\x7f\x01name"], result=True).exits(127)
    check("\x1b" not in d.errors, "an escape byte reached the terminal")
    d = run(cmd=[b"\xff\xfe-bad-utf8"], result=True).exits(127)
    d = run("--hostname", "x\x1b[2Jy", cmd=["true"], result=True).exits(125)
    check("\x1b" not in d.errors, "an escape byte of a bad value reached the terminal")


def test_result_ids_differ():
    ids = {run(cmd=["true"], result=True).result["id"] for _ in range(10)}
    equal(len(ids), 10)


# --- size -------------------------------------------------------------------------------------------


def test_a_mebibyte_of_arguments():
    words = [f"{i:099d}" for i in range(10486)]
    d = run(cmd=["sh", "-c", 'echo $# "$1" "${10486}"; printf "%s\\n" "$@" | sha256sum', "sh", *words]).exits(0)
    lines = d.text.splitlines()
    equal(lines[0], f"10486 {words[0]} {words[-1]}")
    equal(lines[1].split()[0], hashlib.sha256(("\n".join(words) + "\n").encode()).hexdigest(), "the words")


def test_the_longest_argument_and_odd_bytes():
    one = b"x" * 131071
    equal(len(run(cmd=["printf", "%s", one]).exits(0).out), 131071)
    odd = bytes(range(1, 256))
    equal(run(cmd=["printf", "%s", odd]).exits(0).out, odd)
    equal(run(cmd=["sh", "-c", 'echo $#', "sh", "", "", ""]).exits(0).text, "3\n", "empty arguments")


def test_a_mebibyte_of_environment():
    options = [w for i in range(250) for w in ("--env", f"V{i}=" + "e" * 4190)]
    got = environment(run(*options, cmd=["env", "-0"]))
    equal(len(got), 255)
    check(all(got[f"V{i}"] == "e" * 4190 for i in range(250)), "a value was changed")


def big_stack():
    resource.setrlimit(resource.RLIMIT_STACK, (64 * MIB, resource.getrlimit(resource.RLIMIT_STACK)[1]))


def test_too_much_is_told_clearly():
    run(*["--env", "A=1"] * 257, cmd=["true"]).refused("--env", "256")
    run(cmd=["true", *["x"] * 70000]).refused("70001 arguments")
    run(cmd=["true", *["y" * 100000] * 45], preexec_fn=big_stack).refused("larger than 4 MiB")
    # What fits the wire but not execve(2) in the cell is the command's failure to start.
    d = run(cmd=["true", *["z" * 100000] * 35], preexec_fn=big_stack)
    check(d.rc == 0 or (d.rc == 126 and "rgument list too long" in d.errors), f"{d.rc}: {d.errors}")


# --- children ---------------------------------------------------------------------------------------


def test_background_children_die():
    """That nothing is left is looked at after every test; here, that nobody waits for them either."""
    d = run(cmd="sleep 1000 & sleep 1001 & echo done", timeout=20).exits(0)
    equal(d.text, "done\n")
    run(cmd="nohup sleep 1000 >/dev/null 2>&1 & exit 3", timeout=20).exits(3)


def test_daemons_die():
    code = (
        "import os,signal,time\n"
        "r, w = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\n"
        "        print('daemon', flush=True)\n"
        "        os.write(w, b'x')\n"
        "        time.sleep(1000)\n"
        "    os._exit(0)\n"
        "os.wait(); os.read(r, 1); os._exit(5)\n"
    )
    for options in ([], ["--user", "root"], ["--profile", "locked"], ["--diff"]):
        d = python(code, *options, timeout=20).exits(5)
        has(d.text, "daemon\n", options)


def test_output_of_children_before_the_end():
    for i in range(20):
        d = run(cmd="echo a; (echo b; echo e >&2) & wait; echo c").exits(0)
        equal((d.text, d.errors), ("a\nb\nc\n", "e\n"), f"round {i}")
    d = run(cmd="(sleep 0.1; echo early) & sleep 0.5; echo end").exits(0)
    equal(d.text, "early\nend\n")
    # All that was in the pipe when the command ended, though its writer is not the command.
    d = run(cmd="head -c 60000 /dev/zero & wait; sleep 1000 & exit 0").exits(0)
    equal(len(d.out), 60000)


def test_orphans_are_reaped():
    code = (
        "import os\n"
        "for i in range(1500):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        if os.fork() == 0: os._exit(0)\n"
        "        os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
        "print('all')\n"
    )
    equal(python(code, "--pids", "64").exits(0).text, "all\n")


def test_killing_everything_inside():
    for options in ([], ["--user", "root"], ["--profile", "locked"]):
        d = run(*options, cmd="(sleep 1000 &); sleep 1000 & kill -9 -1; wait", result=True, timeout=20)
        check(d.rc in (0, 137), f"exit code {d.rc}")
        equal(d.result["limit"], None)
        run(*options, cmd="kill -9 1; kill -TERM 1; kill -SEGV 1; sleep 0.1; exit 6", timeout=20).exits(6)


def test_many_runs_one_after_another():
    for i in range(100):
        equal(run(cmd=["echo", str(i)]).exits(0).text, f"{i}\n")


if __name__ == "__main__":
    tap.main(globals())

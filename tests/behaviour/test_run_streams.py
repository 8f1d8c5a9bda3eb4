#!/usr/bin/python3 -B
"""test_run_streams.py - cordon run: streams and signals."""
import hashlib
import os
import random
import select
import signal
import subprocess
import tempfile
import time

import tap
from tap import check, equal, finish, has, python, run, start

MIB = 1 << 20


# --- streams -----------------------------------------------------------------------------------------


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
    time.sleep(0.3)  # the pipe is full
    while chunk := os.read(p.stdout.fileno(), 65536):
        got += len(chunk)
        if got < 400000:
            time.sleep(0.02)  # a slow reader
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
        time.sleep(0.001)  # a slow reader
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


# --- signals -----------------------------------------------------------------------------------------


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
        time.sleep(i * 0.0004)  # the moment of the signal varies
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
    time.sleep(0.5)  # the command goes on and fills the pipe
    p.send_signal(signal.SIGCONT)
    equal(len(finish(p).exits(6).out), 300000)


if __name__ == "__main__":
    tap.main(globals())

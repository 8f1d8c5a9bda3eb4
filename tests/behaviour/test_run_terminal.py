#!/usr/bin/python3 -B
"""test_run_terminal.py - cordon run --tty: a terminal of the cell, and one outside."""
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import tap
from level import differs
from tap import Failed, check, equal, finish, has, run, start


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
    # It speaks only when the terminal is its own: at its start, and when it goes on.
    t.type(b"""bash -c 'trap "echo a""gain" CONT; echo be""gun; while :; do sleep 0.1; done'\n""")
    t.until(b"begun")
    t.type(b"\x1a")
    t.until(b"Stopped")
    t.type(b"fg\n")
    t.until(b"again")
    t.type(b"\x03")
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
    if differs("set-user-id"):  # has no set-user-id programs
        run("--user", "root", cmd="python -c 'print(1)'").exits(0)
    else:
        run(cmd="sudo python -c 'print(1)'").exits(0)


def test_tty_is_restored_after_every_end():
    Terminal(cmd=["no-such-command"]).end(127)
    Terminal("--timeout", "200ms", cmd=["sleep", "1000"]).end(124)
    Terminal("--memory", "nonsense", cmd=["true"]).end(2)
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


def test_tty_output_that_is_not_read():
    """The terminal hangs up: a program that has filled every buffer ends, too, as SIGHUP lets it."""
    for command, code in ((["yes"], 129), ("trap 'exit 5' HUP; yes & while :; do sleep 0.1; done", 5)):
        p = start("--tty", cmd=command)
        check(os.read(p.stdout.fileno(), 100), "no output")
        p.stdout.close()
        p.stdout = None
        finish(p).exits(code)
    d = run("--tty", "--output-limit", "1000", cmd=["yes"], result=True).exits(129).limit("output")
    equal(len(d.out), 1000)


def test_without_tty_there_is_no_terminal():
    d = run(cmd="test -t 0 || test -t 1 || test -t 2 || echo none; : < /dev/tty").text
    equal(d, "none\n")


if __name__ == "__main__":
    tap.main(globals())

#!/usr/bin/python3 -B
"""test_rootless.py - cordon run by a user without any privilege: with one id, and with a range of subordinate ids.

The user exists only here: files of /etc that name him are covered by copies in our own mount namespace.
"""
import contextlib
import os
import random
import shutil
import signal
import stat
import subprocess
import tempfile
import time

import tap
from tap import Skip, check, equal, finish

UID = 54323
FIRST = 1600000000
NAME = "cordon-behave"


class Who:
    """Runs cordon as the user."""

    def __init__(self, mode, home):
        self.mode, self.home = mode, home
        self.more = {
            "user": UID,
            "group": UID,
            "extra_groups": [],
            "env": {"HOME": home, "PATH": "/usr/bin:/bin"},
            "cwd": home,
        }

    @property
    def mapped(self):
        return self.mode == "mapped"

    def run(self, *options, cmd, **more):
        return tap.run(*options, cmd=cmd, **{**self.more, **more})

    def start(self, *options, cmd, **more):
        return tap.start(*options, cmd=cmd, **{**self.more, **more})

    def folder(self):
        path = tempfile.mkdtemp(dir=self.home)
        with open(os.path.join(path, "file"), "w") as f:
            f.write("content\n")
        for name in (path, f.name):
            os.chown(name, UID, UID)
        os.chmod(path, 0o755)
        return path


def text_of(path):
    try:
        with open(path) as f:
            return f.read()
    except FileNotFoundError:
        return ""


@contextlib.contextmanager
def account(mode):
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp"))
        os.chown(home, UID, UID)
        if mode == "mapped":
            for path in ("/etc/subuid", "/etc/subgid"):
                stack.enter_context(tap.over(path, text_of(path) + f"{NAME}:{FIRST}:65536\n"))
            stack.enter_context(
                tap.over("/etc/passwd", text_of("/etc/passwd") + f"{NAME}:x:{UID}:{UID}::{home}:/bin/sh\n")
            )
            stack.enter_context(tap.over("/etc/group", text_of("/etc/group") + f"{NAME}:x:{UID}:\n"))
        yield Who(mode, home)


def possible(mode):
    """Says why not, where this machine cannot do it at all."""
    p = subprocess.run(
        ["unshare", "--user", "true"], user=UID, group=UID, extra_groups=[], capture_output=True, timeout=20
    )
    if p.returncode != 0:
        raise Skip("ordinary users may have no user namespace on this machine")
    if mode == "mapped" and not os.path.exists("/usr/bin/newuidmap"):
        raise Skip("no newuidmap on this machine")
    if mode == "mapped" and not os.path.exists("/etc/subuid"):
        raise Skip("no /etc/subuid on this machine")


def both(test):
    """Makes one test of each mode out of a function that takes a Who."""

    def make(mode):
        def function():
            possible(mode)
            with account(mode) as who:
                test(who)

        function.__name__ = f"test_{test.__name__}_with_{'a_range' if mode == 'mapped' else 'one_id'}"
        return function

    for mode in ("single", "mapped"):
        function = make(mode)
        globals()[function.__name__] = function
    return test


@both
def a_plain_run(who):
    d = who.run(
        cmd="id -u; id -un; echo $HOME; pwd; echo hi > f && cat f; touch /tmp/x /dev/shm/x /var/tmp/x && echo wrote",
        result=True,
    ).exits(0)
    equal(d.text, "1000\nuser\n/home/user\n/home/user\nhi\nwrote\n")
    equal(d.errors, "")
    restrictions = d.result["restrictions"]
    equal((restrictions["rootless"], restrictions["ids"]), (True, 65536 if who.mapped else 1))
    equal(who.run(cmd=["cat"], data=b"\0\1" * 500000).exits(0).out, b"\0\1" * 500000)
    who.run(cmd="exit 42").exits(42)
    who.run(cmd="kill -9 $$").exits(137)
    who.run(cmd=["no-such"]).exits(127)
    equal(os.stat(os.path.join(who.home, ".cache")).st_uid, UID, "owner of the cache")


@both
def gvisor(who):
    """Needs a range of ids: with one id it is refused, with the reason."""
    if not os.path.exists(tap.engine()):
        shutil.copy(tap.runsc.find(tap.BUILT), tap.engine())
    options = ["--best-effort", "--level", "gvisor", "--runsc", tap.engine()]
    d = who.run(*options, cmd="dmesg | head -1; id -u; touch ~/x; stat -c %u ~/x")
    if who.mapped:
        equal(d.exits(0).text.splitlines()[1:], ["1000", "1000"])
        check("Starting gVisor" in d.text, d.text)
    else:
        d.refused("--level gvisor", "/etc/subuid")


@both
def root_inside(who):
    d = who.run(
        "--user", "root", cmd="id -u; touch /etc/x /opt/x /root/x && echo wrote; stat -c %u /etc/x; echo > /dev/stdout"
    ).exits(0)
    equal(d.text, "0\nwrote\n0\n\n")
    d = who.run(cmd="touch /etc/x || echo refused")
    if who.mapped:
        equal(d.text, "refused\n", "an ordinary user in /etc")


@both
def root_inside_is_the_user_outside(who):
    p = who.start("--user", "root", cmd="echo ready; cat", stdin=subprocess.PIPE)
    equal(p.stdout.readline(), b"ready\n")
    seen = set()
    for pid in tap.processes():
        with open(f"/proc/{pid}/status") as f:
            uids = next(line for line in f if line.startswith("Uid:")).split()[1:]
        seen |= set(map(int, uids))
    finish(p, b"").exits(0)
    allowed = {UID} | (set(range(FIRST, FIRST + 65536)) if who.mapped else set())
    check(seen and seen <= allowed, f"ids outside: {seen}")
    secret = os.path.join(who.home, "secret")
    with open(secret, "w") as f:
        f.write("root's")
    os.chmod(secret, 0o600)
    for options in ([], ["--user", "root"]):
        d = who.run(
            *options,
            "--mount",
            f"{who.home}:/data:rw",
            cmd="cat /data/secret || chmod 777 /data/secret || echo refused",
        )
        equal(d.exits(0).text, "refused\n", options)
        d = who.run(*options, "--mount", f"{secret}:/s", cmd=["cat", "/s"])
        check(d.rc != 0 and b"root's" not in d.out, "a file of root's was read")


@both
def users(who):
    for name, want in (("user", "1000"), ("root", "0"), ("1000", "1000"), ("4242", "4242"), ("65535", "65535")):
        d = who.run("--user", name, cmd=["id", "-u"])
        equal(d.exits(0).text, want + "\n", name)
    d = who.run("--user", "www-data", cmd=["id", "-un"])
    if who.mapped:
        equal(d.exits(0).text, "www-data\n")
    elif d.rc != 0:
        d.refused("--user www-data")
    d = who.run(cmd="sudo -n id -u")
    if not who.mapped:
        check(d.rc != 0, "sudo with a single id")


@both
def mounts(who):
    for options in ([], ["--user", "root"], ["--profile", "locked"]):
        folder = who.folder()
        d = who.run(
            *options,
            "--mount",
            f"{folder}:/data:rw",
            cmd="cat /data/file; echo more >> /data/file; echo x > /data/new; mkdir /data/d; "
            "stat -c %u /data/new; id -u",
        )
        content, owner, uid = d.exits(0).text.split()
        equal((content, owner), ("content", uid), options)
        equal(text_of(f"{folder}/file"), "content\nmore\n")
        for name in ("file", "new", "d"):
            st = os.lstat(os.path.join(folder, name))
            equal((st.st_uid, st.st_gid), (UID, UID), f"owner of {name}, {options}")
        d = who.run(*options, "--mount", f"{folder}:/data", cmd="cat /data/new; touch /data/y || echo refused").exits(0)
        equal(d.text, "x\nrefused\n")
        d = who.run(*options, "--mount", f"{folder}:/data:rw", cmd="chmod u+s /data/new || echo refused").exits(0)
        equal(d.text, "refused\n", options)
        check(not os.lstat(f"{folder}/new").st_mode & stat.S_ISUID, "a set-id bit")
    link = os.path.join(who.home, "link")
    os.symlink(folder, link)
    equal(who.run("--mount", f"{link}:/data", cmd=["cat", "/data/new"]).exits(0).text, "x\n")
    equal(who.run("--mount", f"{folder}/new:/var/run/f", cmd=["cat", "/run/f"]).exits(0).text, "x\n")
    who.run("--mount", f"{who.home}/nope:/data", cmd=["true"]).refused("--mount", "nope")


@both
def a_source_that_may_not_be_entered(who):
    closed = os.path.join(who.home, "closed")
    os.mkdir(closed, 0o700)  # root's
    d = who.run("--mount", f"{closed}:/data", cmd=["ls", "/data"])
    check(d.rc != 0, "root's closed directory was listed")
    who.run("--mount", f"{closed}/inner:/data", cmd=["true"]).refused("--mount", "Permission denied")
    equal(who.run(cmd=["pwd"], cwd="/").exits(0).text, "/home/user\n")


@both
def limits_that_need_a_cgroup_are_refused(who):
    if who.run(cmd=["true"], result=True).result["restrictions"]["memory_limit"]:
        raise Skip("a cgroup is delegated to everybody here")
    for option, value in (("--memory", "64M"), ("--cpus", "0.5"), ("--pids", "50")):
        d = who.run(option, value, cmd=["true"], result=True)
        d.refused(option, "cgroup", "--best-effort")
        equal((d.result["error"]["code"], d.result["error"]["fault"]), ("unsupported", "user"))
        d = who.run(option, value, "--best-effort", cmd="exit 3", result=True).exits(3)
        restrictions = d.result["restrictions"]
        equal((restrictions["memory_limit"], restrictions["cpu_limit"], restrictions["pids_limit"]), (False, False, False))
        check(restrictions["missing"] and "cgroup" in restrictions["missing"], f"missing: {restrictions['missing']}")
    restrictions = who.run(cmd=["true"], result=True).exits(0).result["restrictions"]
    check(restrictions["missing"], "a run without limits does not say so")


@both
def limits_that_do_not(who):
    who.run("--timeout", "200ms", cmd=["sleep", "1000"], result=True).exits(124).limit("timeout")
    d = (
        who.run("--disk", "4M", cmd="head -c 10M /dev/zero > /tmp/f; stat -c %s /tmp/f", result=True)
        .exits(0)
        .limit("disk")
    )
    check(3 << 20 < int(d.text) <= 4 << 20, d.text)
    d = who.run(
        "--inodes", "200", cmd="for i in $(seq 400); do touch f$i || break; done 2>/dev/null; ls | wc -l", result=True
    ).limit("inodes")
    check(100 < int(d.text) <= 264, d.text)
    d = who.run("--output-limit", "1000", cmd=["yes"], result=True).limit("output")
    equal(len(d.out), 1000)
    equal(who.run("--nofile", "99", cmd="ulimit -n").exits(0).text, "99\n")


@both
def the_locked_profile(who):
    d = who.run(
        "--profile",
        "locked",
        cmd="id -u; grep -E 'Cap(Prm|Eff|Bnd)|NoNew' /proc/self/status; touch ~/x && echo wrote",
        result=True,
    ).exits(0)
    equal(
        d.text.split(),
        ["1000", "CapPrm:", "0" * 16, "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1", "wrote"],
    )
    equal(d.result["profile"], "locked")
    equal(who.run("--profile", "locked", "--user", "root", cmd=["id", "-u"]).exits(0).text, "0\n")


@both
def changes(who):
    d = who.run("--diff", cmd="echo > f; mkdir d; echo > d/g; echo > /tmp/t").exits(0)
    equal(
        sorted(line.split()[-1] for line in d.text.splitlines()),
        ["/home/user/d", "/home/user/d/g", "/home/user/f", "/tmp/t"],
    )
    d = who.run("--diff", "--user", "root", cmd="rm /etc/hosts; echo > /opt/x").exits(0)
    equal(
        sorted((line.split()[0], line.split()[-1]) for line in d.text.splitlines()),
        [("added", "/opt/x"), ("deleted", "/etc/hosts")],
    )
    equal(who.run("--diff", cmd=["true"]).exits(0).text, "")


@both
def read_only_and_terminal_and_network(who):
    equal(
        who.run("--read-only", cmd="touch ~/x /tmp/x && echo wrote; touch /etc/x || echo refused").exits(0).text,
        "wrote\nrefused\n",
    )
    equal(who.run("--tty", cmd="test -t 0 && echo yes; stty size").exits(0).text.split(), ["yes", "24", "80"])
    code = (
        "import socket,threading\n"
        "s = socket.create_server(('127.0.0.1', 80)); threading.Thread(target=lambda: s.accept()[0].sendall(b'80')).start()\n"
        "print(socket.create_connection(('127.0.0.1', 80), 10).recv(9).decode())\n"
        "try: socket.create_connection(('1.1.1.1', 443), 10)\n"
        "except ConnectionRefusedError: print('refused')\n"
    )
    equal(who.run(cmd=["/usr/bin/python3", "-c", code]).exits(0).text, "80\nrefused\n")


@both
def nothing_of_the_host_is_visible(who):
    d = who.run(
        "--user", "root", cmd="ls -A /home /root /opt /srv /mnt; ls -A /sys/* /boot/* 2>/dev/null; cat /etc/passwd"
    )
    equal(d.text.split("root:x:0")[0].split(), ["/home:", "user", "/mnt:", "/opt:", "cordon", "/root:", "/srv:"])
    check(NAME not in d.text, "the machine's passwd is visible")


@both
def sudo(who):
    if not who.mapped:
        d = who.run(cmd="sudo -n true")
        check(d.rc != 0, "sudo with a single id")
        return
    d = who.run(cmd="sudo id -u")
    if d.rc != 0:
        # /usr keeps its owners, and they are nobody here: set-user-id root programs stay without effect.
        check("sudo" in d.errors, f"not sudo's own refusal: {d.errors}")


@both
def killed_at_random_moments(who):
    rng = random.Random(tap.SEED or 3)
    folder = who.folder()
    for number in range(15):
        options = ["--mount", f"{folder}:/data:rw"] if number % 2 else []
        p = who.start(
            *options,
            cmd="(setsid sleep 1000 &); sleep 1000 & echo ready; sleep 1000",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(rng.uniform(0, 0.03))  # the moment of the kill varies
        below = tap.children(p.pid)
        for pid in ([p.pid], below, [p.pid, *below])[number % 3]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if number % 3 == 1 and not below:
            p.kill()
        try:
            p.wait(timeout=20)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
            check(False, f"round {number}: cordon hangs")
        equal(tap.left(), [], f"round {number}: left")


def test_without_a_home():
    possible("single")
    place = f"/tmp/cordon-{UID}"
    shutil.rmtree(place, ignore_errors=True)
    try:
        for env in ({}, {"HOME": "/nonexistent"}, {"HOME": "/root"}):
            equal(
                tap.run(cmd=["id", "-u"], user=UID, group=UID, extra_groups=[], env=env, cwd="/").exits(0).text,
                "1000\n",
            )
        st = os.lstat(place)
        equal((st.st_uid, stat.S_IMODE(st.st_mode)), (UID, 0o700))
        # Another user was there first: refused, not used.
        shutil.rmtree(place)
        os.mkdir(place, 0o777)
        tap.run(cmd=["true"], user=UID, group=UID, extra_groups=[], env={}, cwd="/").refused(place, "belongs to another user")
        os.rmdir(place)
        os.symlink("/etc", place)
        tap.run(cmd=["true"], user=UID, group=UID, extra_groups=[], env={}, cwd="/").refused(place)
    finally:
        if os.path.islink(place):
            os.unlink(place)
        shutil.rmtree(place, ignore_errors=True)


def test_broken_subuid_files():
    """Lines that give too little or make no sense: the single id, not an error."""
    possible("mapped")
    for line in (f"{NAME}:{FIRST}:1000", f"{NAME}:{FIRST}", f"{NAME}", "", f"{NAME}:x:y", ":::"):
        with account("mapped") as who, tap.over("/etc/subuid", line + "\n"):
            d = who.run(cmd=["id", "-u"], result=True).exits(0)
            equal((d.text, d.result["restrictions"]["ids"]), ("1000\n", 1), line)


if __name__ == "__main__":
    tap.main(globals())

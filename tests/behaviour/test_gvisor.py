#!/usr/bin/python3 -B
"""test_gvisor.py - cordon run --level gvisor: what is particular to it. The other test programs of this folder run at
this level, too (CORDON_TEST_LEVEL=gvisor)."""
import os
import signal
import subprocess

import tap
from tap import check, equal, has, plain, processes, wait_for

tap.LEVEL = "gvisor"
MIB = 1 << 20


def run(*options, **more):
    return tap.run(*options, **more)


def test_the_kernel_is_gvisors():
    d = run(cmd="dmesg; cat /proc/version", result=True).exits(0)
    has(d.text, "Starting gVisor")
    equal(d.result["level"], "gvisor")
    equal(d.result["restrictions"]["seccomp"], "engine")


def test_files_are_the_cells():
    """The owners of all ids, and what --diff lists: the guest writes to the cell's own files."""
    d = run("--user", "root", "--diff", cmd="echo x > /root/a; chown 1234:4321 /root/a; stat -c %u:%g /root/a").exits(0)
    has(d.text, "1234:4321\n")
    has(d.text, "/root/a")
    d = run("--diff", cmd="id -u; echo x > ~/b; stat -c %U ~/b; echo y > /tmp/c").exits(0)
    has(d.text, "1000\nuser\n")
    has(d.text, "/home/user/b")
    has(d.text, "/tmp/c")


def test_locked_has_one_user():
    """And the system calls of the profile: a standard program may make a namespace of the guest's kernel."""
    d = run("--profile", "locked", cmd="id -u; grep -E 'Cap(Bnd|Prm)|Seccomp' /proc/self/status; unshare -U true 2>&1; sudo -n true").exits(1)
    has(d.text, "1000\nCapPrm:\t0000000000000000\nCapBnd:\t0000000000000000\nSeccomp:\t2\n")
    has(d.text, "unshare failed: Operation not permitted")
    run(cmd="unshare -U true").exits(0)


def test_runsc_does_not_show_itself():
    """runsc's own files (its bundle, its state) are not in what the guest sees."""
    d = run("--user", "root", cmd="ls -A /dev/shm; ls -d /dev/shm/bundle /dev/shm/state /proc/1/root/dev/shm/bundle; "
            "grep -c runsc /proc/mounts").exits(1)
    equal(d.text, "0\n")


UNCOVER = """
mkdir -p /tmp/at && mount -t tmpfs t /tmp/at && mkdir /tmp/at/o /tmp/at/l &&
mount -t overlay -o lowerdir=/:/tmp/at/l o /tmp/at/o && ls -d /tmp/at/o/etc/passwd && ls -A /tmp/at/o/proc /tmp/at/o/dev
"""


def test_nothing_is_below_proc_and_dev():
    """gVisor lets every user mount the guest's root once more, without what covers /proc and /dev: they are empty, with
    no procfs of the machine, no device and no file of runsc."""
    for user in "root", "user":
        d = run("--user", user, cmd=["unshare", "-Urm", "sh", "-c", UNCOVER]).exits(0)
        equal(d.text, "/tmp/at/o/etc/passwd\n/tmp/at/o/dev:\n\n/tmp/at/o/proc:\n", user)


def test_all_of_100_megabytes_come():
    d = run(cmd="head -c 100000000 /dev/zero", timeout=120).exits(0)
    equal(len(d.out), 100000000)


def test_pids_are_limited_in_the_guest():
    """And the guest lives on: a fork that fails is the program's problem."""
    code = ("import os, time\nn = 0\n"
            "while True:\n"
            "    try: pid = os.fork()\n"
            "    except OSError as e: print(n, e.errno); break\n"
            "    if pid == 0: time.sleep(1000)\n"
            "    n += 1\n")
    d = run("--pids", "32", cmd=["python3", "-c", code]).exits(0)
    count, number = map(int, d.text.split())
    equal(number, 11, "errno")
    check(20 <= count < 64, f"{count} children with --pids 32")  # gVisor counts a little inexactly


def test_memory_beyond_the_limit_is_told():
    """The machine's kernel kills one of the engine's processes: that of the program, or the guest ends as a whole."""
    d = run("--memory", "64M", cmd=["python3", "-c", "x = []\nwhile True: x.append(bytearray(1 << 20))"], result=True)
    check(d.rc in (1, 137), f"exit code {d.rc}")
    d.limit("memory")
    # 48 MiB more for the engine; the kernel lets a few pages of its own pass beyond the limit.
    check(d.result["memory_peak_bytes"] <= 113 * MIB, d.result["memory_peak_bytes"])


def test_too_old_or_missing_is_refused():
    tap.run("--level", "gvisor", "--runsc", "/nonexistent/runsc", cmd="true").refused("--level gvisor", "/nonexistent/runsc")
    tap.run("--level", "gvisor", "--runsc", "/bin/true", cmd="true").refused("--level gvisor", "version")


def test_without_the_shim_there_are_containers():
    folder = os.path.dirname(tap.PROGRAM)
    os.rename(f"{folder}/cordon-shim", f"{folder}/away")
    try:
        run(cmd="true").refused("--level gvisor", "cordon-shim is not installed")
        equal(plain("run", "--level", "container", "--", "echo", "works").exits(0).text, "works\n")
    finally:
        os.rename(f"{folder}/away", f"{folder}/cordon-shim")


def test_only_root_writes_to_the_machine():
    with tap.folder() as source:
        run("--mount", f"{source}:/data:rw", cmd="true").refused("--mount /data", "--user root")
        run("--mount", f"{source}:/data:rw", "--user", "root", cmd="echo new > /data/made").exits(0)
        with open(os.path.join(source, "made")) as f:
            equal(f.read(), "new\n")
        equal(run("--mount", f"{source}:/data", cmd="cat /data/file").exits(0).text, "content\n")


def test_a_user_cannot_end_the_guest():
    run(cmd="kill -9 1; kill -TERM 1; sleep 0.1; exit 6").exits(6)


def test_a_lowered_limit_of_the_agent():
    """Root of the guest takes its PID 1 the right to open files: the end of the program is told all the same."""
    code = "import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (4, 4)); print('done')"
    equal(run("--user", "root", cmd=["python3", "-c", code]).exits(0).text, "done\n")


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


def engine_processes():
    """{pid: command line} of the processes of runsc."""
    found = {}
    for pid in processes():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if words[0].startswith(b"runsc"):
            found[pid] = b" ".join(words).decode()
    return found


def test_namespaces_of_the_engine_are_limited():
    """They are memory that no limit of the cell counts."""
    p = tap.start(cmd="echo up; sleep 1000", stdout=subprocess.PIPE)
    equal(p.stdout.readline(), b"up\n")
    (shim,) = [pid for pid in processes() if comm(pid) == "cordon-shim"]
    for kind in "user", "mnt", "net", "pid", "ipc", "uts", "cgroup", "time":
        limit = subprocess.run(["nsenter", "--user", "--target", str(shim), "cat", f"/proc/sys/user/max_{kind}_namespaces"],
                               stdout=subprocess.PIPE, text=True, check=True).stdout
        equal(limit, "16\n", kind)
    p.kill()
    p.wait()


def kill_part(part):
    p = tap.start(cmd="echo up; sleep 1000", stdout=subprocess.PIPE)
    equal(p.stdout.readline(), b"up\n")
    victims = [pid for pid, words in engine_processes().items() if part(words)]
    check(victims, f"no such process: {engine_processes()}")
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    return tap.finish(p)


def test_kill_of_the_sentry_is_told():
    kill_part(lambda words: " boot " in words).exits(125)


def test_kill_of_the_gofer_ends_or_not():
    """With direct access to files the gofer is needed for few things: either the guest goes on, or it ends and that is
    told. Nothing is left in both cases."""
    p = tap.start("--timeout", "5s", cmd="echo up; sleep 1; ls /etc > /dev/null; sleep 1000", stdout=subprocess.PIPE)
    equal(p.stdout.readline(), b"up\n")
    for pid, words in engine_processes().items():
        if " gofer " in words:
            os.kill(pid, signal.SIGKILL)
    d = tap.finish(p)
    check(d.rc in (124, 125), f"exit code {d.rc}: {d.errors}")


def test_kill_of_runsc_is_told():
    kill_part(lambda words: " run " in words).exits(125)


def test_kill_of_cordon_leaves_nothing():
    p = tap.start(cmd="echo up; sleep 1000", stdout=subprocess.PIPE)
    equal(p.stdout.readline(), b"up\n")
    p.kill()
    p.wait()
    wait_for(lambda: not engine_processes(), name="the end of runsc")


if __name__ == "__main__":
    tap.main(globals())

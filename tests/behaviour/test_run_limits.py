#!/usr/bin/python3 -B
"""test_run_limits.py - cordon run: limits, each hit for real."""

import tap
from level import LEVEL, differs
from tap import check, equal, has, python, run

MIB = 1 << 20


SLOW = 20 if LEVEL == "microvm" else 1  # until an emulated program has begun


def soon(ms):
    """A timeout that ends the command after it has begun."""
    return f"{ms * SLOW}ms"


HOG = "x = []\nwhile True: x.append(bytearray(1 << 20))"


# The least memory of a virtual machine; what the engine has beside it, with a few pages of the kernel's own.
MEMORY = 128 if differs("least memory") else 64
PEAK = (MEMORY + {"container": 0, "gvisor": 49, "microvm": 129}[LEVEL]) * MIB
# By which code a program ends that has hit the limit. gVisor's ends with 1 if it was killed while it started, and may end as a whole.
KILLED = (1, 137, 125) if LEVEL == "gvisor" else (137,)


def killed_by_memory(*options):
    d = python(HOG, "--memory", f"{MEMORY}M", *options, result=True).limit("memory")
    check(d.rc in KILLED, f"exit code {d.rc}: {d.errors}")
    check(d.result["memory_peak_bytes"] <= PEAK, f"peak {d.result['memory_peak_bytes']}")
    return d


def test_memory_hog():
    d = killed_by_memory()
    if not differs("memory") or d.rc == 137:
        equal((d.result["state"], d.result["signal"]), ("killed", 9))
    killed_by_memory("--profile", "locked", "--user", "user" if differs("root in the profile locked") else "root")


def test_memory_hog_in_a_child():
    d = run("--memory", f"{MEMORY}M", cmd=["bash", "-c", f"python3 -c '{HOG}'; echo child $?; exit 3"], result=True).limit("memory")
    if not differs("memory") or d.rc == 3:
        check(d.exits(3).text in [f"child {code}\n" for code in KILLED], d.text)
    else:
        has(d.exits(125).errors, "engine exited")


def test_memory_hog_in_files():
    """What is written is memory too; the cell ends, not the machine."""
    d = run("--memory", f"{MEMORY}M", "--disk", "512M", cmd="head -c 300M /dev/zero > /tmp/big; exit $?", result=True)
    d.limit("memory")
    check(d.result["memory_peak_bytes"] <= PEAK, "more than the limit")


def told_of_pids():
    """The limit of a command that could not fork, and ended well all the same."""
    return None if differs("pids") else "pids"


def test_fork_bomb():
    code = (
        "import os,time\nn=0\n"
        "while True:\n"
        "    try: pid = os.fork()\n"
        "    except OSError as e: print(n, e.errno); break\n"
        "    if pid == 0: time.sleep(1000)\n"
        "    n += 1\n"
    )
    d = python(code, "--pids", "32", result=True).exits(0).limit(told_of_pids())
    failed = python(code.replace("break", "os._exit(4)"), "--pids", "32", result=True).exits(4)
    failed.limit(None if differs("pids") else "pids")
    count, number = map(int, d.text.split())
    equal(number, 11, "errno")
    check(20 <= count < (64 if differs("pids") else 32), f"{count} children with --pids 32")
    most = {"container": 32, "gvisor": 3 * 32 + 256}.get(LEVEL)  # of the cell: threads of the engine are among them
    check(most is None or d.result["pids_peak"] is None or d.result["pids_peak"] <= most, f"pids_peak {d.result['pids_peak']}")


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
    d = python(code, "--pids", "20", result=True).exits(0).limit(told_of_pids())
    check(int(d.text) < (40 if differs("pids") else 20), f"{d.text} threads")


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
            .limit(None if where == "/dev/shm" and differs("/dev/shm") else "disk")
        )
        size = int(d.text.split()[1])
        check(7 * MIB < size <= 8 * MIB, f"{size} bytes in {where}")
        has(d.errors, "No space left", where)
    d = run("--disk", "8M", "--read-only", cmd="head -c 100M /dev/zero > /tmp/fill; echo $?", result=True).exits(0)
    equal(d.text, "1\n")


def test_limits_that_a_command_hides():
    """They are told although it ends with 0: on stderr, and all of them in the result."""
    said = ", although the command ended with 0\n"
    fill = "head -c 20M /dev/zero > /tmp/fill 2> /dev/null; sleep 0.5; rm /tmp/fill"
    d = run("--disk", "8M", cmd=fill + "; exit 0", result=True).exits(0).limit("disk")
    equal((d.errors, d.result["limits_hit"]), ("cordon: limit reached: disk" + said, ["disk"]))
    equal(run("--disk", "8M", cmd=fill + "; exit 5").exits(5).errors, "cordon: limit reached: disk\n", "of one that fails")
    if differs("memory"):
        return
    both = f"python3 -c '{HOG}' 2> /dev/null; {fill}; exit 0"
    d = run("--memory", f"{MEMORY}M", "--disk", "8M", cmd=both, result=True).exits(0).limit("memory")
    check(d.errors.endswith("cordon: limit reached: memory, disk" + said), d.errors)
    equal(d.result["limits_hit"], ["memory", "disk"])
    equal(run("--disk", "8M", cmd="true", result=True).exits(0).result["limits_hit"], [], "of one that hits none")


def test_disk_quota_is_one_for_all_places():
    script = (
        "for d in /home/user /tmp /dev/shm /var/tmp; do head -c 3M /dev/zero > $d/x; done 2>/dev/null; "
        "cat /home/user/x /tmp/x /dev/shm/x /var/tmp/x | wc -c"
    )
    size = int(run("--disk", "8M", cmd=script).exits(0).text)
    apart = 3 * MIB if differs("/dev/shm") else 0  # the file there
    check(7 * MIB < size - apart <= 8 * MIB, f"{size} bytes in all")


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
    told = "cordon: limit reached: output\n"
    check(len(d.out) + len(d.errors.removesuffix(told)) <= 100, "stderr counts, too")
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
    d = python(code, "--output-limit", "64K", "--timeout", soon(500), result=True).exits(124)
    equal((len(d.out), d.result["output_truncated"]), (65536, True))


def test_endless_loop():
    d = run("--timeout", soon(300), cmd="while :; do :; done", result=True).exits(124).limit("timeout")
    equal((d.result["state"], d.result["error"]), ("killed", None))
    equal(d.result["signal"], 9, "PID 1 has ended it, not cordon")
    check(d.result["wall_ms"] >= 300 * SLOW, f"wall_ms {d.result['wall_ms']}")


def test_sleeping_for_ever():
    run("--timeout", soon(200), cmd=["sleep", "infinity"], result=True).exits(124).limit("timeout")
    run("--timeout", soon(200), cmd="trap '' TERM INT HUP; while :; do sleep 1; done", result=True).exits(124).limit(
        "timeout"
    )
    run("--timeout", soon(200), cmd="kill -STOP $$", result=True).exits(124).limit("timeout")
    run("--timeout", soon(200), cmd="setsid sleep 1000", result=True).exits(124).limit("timeout")


def test_timeout_keeps_what_was_printed():
    d = run("--timeout", soon(300), cmd="echo out; echo err >&2; sleep 1000").exits(124)
    equal((d.text, d.errors), ("out\n", "err\ncordon: limit reached: timeout\n"))


def test_timeout_that_is_not_reached():
    d = run("--timeout", "30s", cmd="exit 4", result=True).exits(4).limit(None)
    check(d.result["wall_ms"] < 30000, "waited for it")


def test_timeout_with_children_that_hold_the_output():
    d = run("--timeout", soon(300), cmd="(setsid sh -c 'trap \"\" TERM; sleep 1000' &) ; sleep 1000", result=True)
    d.exits(124).limit("timeout")


def test_cpu_share():
    # The boot of a virtual machine counts, too, and takes the longer: so shares of the whole time are compared.
    share, ms = (0.2, 6000) if LEVEL == "microvm" else (0.05, 1500)
    spin = "for i in 1 2; do sh -c 'while :; do :; done' & done; sleep 1000"
    r = run("--cpus", str(share), "--timeout", f"{ms}ms", cmd=spin, result=True).exits(124).result
    most = share * r["wall_ms"] + 100
    check(r["cpu_ms"] <= most, f"{r['cpu_ms']} ms of processor in {r['wall_ms']} ms with --cpus {share}")
    free = run("--timeout", f"{ms}ms", cmd=spin, result=True).exits(124).result
    least = 1.2 * (share * free["wall_ms"] + 100)
    check(free["cpu_ms"] >= least, f"without the limit only {free['cpu_ms']} ms in {free['wall_ms']} ms: nothing was shown")


if __name__ == "__main__":
    tap.main(globals())

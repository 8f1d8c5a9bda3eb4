#!/usr/bin/python3 -B
"""test_run_results.py - cordon run: results, sizes, children."""
import hashlib
import json
import os
import re
import resource
import tempfile

import tap
from level import LEVEL, differs
from tap import check, environment, equal, has, plain, python, run

MIB = 1 << 20


# --- results -----------------------------------------------------------------------------------------


def test_result_of_a_plain_run():
    r = run(cmd="echo hello; head -c 100000 /dev/zero > f", result=True).exits(0).result
    equal((r["state"], r["exit_code"], r["signal"], r["limit"], r["error"]), ("exited", 0, None, None, None))
    equal((r["output_bytes"], r["output_truncated"], r["level"], r["profile"]), (6, False, LEVEL, "standard"))
    check(re.fullmatch(r"[0-9a-f]{16}", r["id"]), r["id"])
    check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", r["started_at"]), r["started_at"])
    if differs("size of files"):
        check(r["disk_bytes"] < 100000, f"disk_bytes {r['disk_bytes']}")
    else:
        check(100000 <= r["disk_bytes"] < 300000, f"disk_bytes {r['disk_bytes']}")
    check(r["memory_peak_bytes"] > 100000, f"memory_peak_bytes {r['memory_peak_bytes']}")
    most = 6 if LEVEL == "container" else 100  # with threads of the engine
    check(r["pids_peak"] is None or 2 <= r["pids_peak"] <= most, f"pids_peak {r['pids_peak']}")
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


def test_a_result_on_standard_output():
    d = run("--result", "-", cmd=["echo", "hi"]).exits(0)
    out, _, rest = d.out.partition(b"\n")
    equal((out, json.loads(rest)["exit_code"]), (b"hi", 0), "behind the output")


def test_results_of_failures():
    for options, cmd, code, fault in (
        ([], ["no-such"], 127, "user"),
        ([], ["/etc"], 126, "user"),
        (["--cwd", "/nope"], ["true"], 125, "user"),
        (["--user", "nope"], ["true"], 125, "user"),
        (["--memory", "x"], ["true"], 2, "user"),
        (["--mount", "/nope:/x"], ["true"], 125, "user"),
        (["--level", "gvisor"], ["true"], 125, "user"),
        (["--nosuch"], ["true"], 2, "user"),
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
            run(*options, cmd=["true"]).exits(2)
            check(os.path.exists(path), f"no result was written with {options[:2]} before --result")
            equal(tap.read_result(path, 2)["error"]["fault"], "user")
            os.unlink(path)
        # But what belongs to the command is not ours.
        plain("run", "--memory", "x", "--", "echo", "--result", path).exits(2)
        check(not os.path.exists(path), "an argument of the command was taken for ours")


def test_result_without_a_command():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "r")
        plain("run", "--result", path).exits(2)
        has(tap.read_result(path, 2)["error"]["message"], "no command")


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
    d = run("--hostname", "x\x1b[2Jy", cmd=["true"], result=True).exits(2)
    check("\x1b" not in d.errors, "an escape byte of a bad value reached the terminal")


def test_result_ids_differ():
    ids = {run(cmd=["true"], result=True).result["id"] for _ in range(tap.rounds(10))}
    equal(len(ids), tap.rounds(10))


# --- size --------------------------------------------------------------------------------------------


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
    equal(sum(name.startswith("V") for name in got), 250)
    check(all(got[f"V{i}"] == "e" * 4190 for i in range(250)), "a value was changed")


def big_stack():
    resource.setrlimit(resource.RLIMIT_STACK, (64 * MIB, resource.getrlimit(resource.RLIMIT_STACK)[1]))


def test_too_much_is_told_clearly():
    run(*["--env", "A=1"] * 257, cmd=["true"]).misused("--env", "256")
    run(cmd=["true", *["x"] * 70000]).refused("70001 arguments")
    run(cmd=["true", *["y" * 100000] * 45], preexec_fn=big_stack).refused("larger than 4 MiB")
    # What fits the wire but not execve(2) in the cell is the command's failure to start.
    d = run(cmd=["true", *["z" * 100000] * 35], preexec_fn=big_stack)
    why = "ilename too long" if differs("long arguments") else "rgument list too long"
    check(d.rc == 0 or (d.rc == 126 and why in d.errors), f"{d.rc}: {d.errors}")


# --- children ----------------------------------------------------------------------------------------


def test_background_children_die():
    """That nothing is left is looked at after every test; here, that nobody waits for them either."""
    d = run(cmd="sleep 1000 & sleep 1001 & echo done").exits(0)
    equal(d.text, "done\n")
    run(cmd="nohup sleep 1000 >/dev/null 2>&1 & exit 3").exits(3)


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
        d = python(code, *options).exits(5)
        has(d.text, "daemon\n", options)


def test_output_of_children_before_the_end():
    for i in range(tap.rounds(20)):
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
        f"for i in range({200 if LEVEL != 'container' else 1500}):\n"  # more than processes are allowed; slow in guests
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
        d = run(*options, cmd="(sleep 1000 &); sleep 1000 & kill -9 -1; wait", result=True)
        check(d.rc in (0, 137), f"exit code {d.rc}")
        equal(d.result["limit"], None)
        d = run(*options, cmd="kill -9 1; kill -TERM 1; kill -SEGV 1; sleep 0.1; exit 6")
        if differs("PID 1") and options:  # root's and a locked session's own
            has(d.exits(125).errors, "engine exited")
        else:
            d.exits(6)


def test_many_runs_one_after_another():
    for i in range(tap.rounds(100)):
        equal(run(cmd=["echo", str(i)]).exits(0).text, f"{i}\n")


if __name__ == "__main__":
    tap.main(globals())

#!/usr/bin/python3 -B
"""Goal: system calls that a cell refuses are counted outside of it, by session and call; those of escapes raise an alarm;
nothing in the cell can reach the process that counts, or its descriptor, and neither its death nor a flood of calls harms
anybody else.

    test_refused_calls.py CORDON [name ...]
"""
import contextlib
import json
import os
import re
import signal
import time

from harness import Server, check, equal, has, run_tests, wait_for

KILLS = True
CALLS = {"x86_64": {"mount": 165, "bpf": 321, "setns": 308, "getpid": 39, "perf_event_open": 298, "io_uring_setup": 425, "clone3": 435, "getdents64": 217},
         "aarch64": {"mount": 40, "bpf": 280, "setns": 268, "getpid": 172, "perf_event_open": 241, "io_uring_setup": 425, "clone3": 435, "getdents64": 61}}[os.uname().machine]
PROBE = """
import ctypes, json, sys
libc, out = ctypes.CDLL(None, use_errno=True), {}
for nr, times in json.loads(sys.argv[1]):
    for i in range(times):
        ctypes.set_errno(0)
        out[nr] = [libc.syscall(ctypes.c_long(nr), 0, 0, 0, 0, 0, 0), ctypes.get_errno()]
print(json.dumps(out))
"""


def calls(server, session, wait=True, **counts):
    command = ["python3", "-c", PROBE, json.dumps([[CALLS[name], n] for name, n in counts.items()])]
    if not wait:
        return server.spawn(session["id"], command)
    done = server.run(session["id"], command, timeout="60s")
    got = json.loads(done["stdout"])
    return {name: got[str(CALLS[name])] for name in counts}


def refused(server, session):
    return server.get(session["id"])["refused_calls"]


def alarms(server, session, kind):
    events = server.want(200, "GET", f"/v1/sessions/{session['id']}/events?limit=1000")["events"]
    return [e["data"] for e in events if e["type"] == "alarm" and e["data"]["kind"] == kind]


def watcher(server, session):
    """Its pid, when it has its name."""
    return wait_for(lambda: watcher_now(server, session), 10, "the watcher")


def watcher_now(server, session):
    """The pid of the watcher of a session: the process that has its file open. None: there is none."""
    path = os.path.join(server.run_dir, "cells", session["id"] + ".calls")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as f:
                if f.read() == "cordon-watch\n" and os.readlink(f"/proc/{pid}/fd/1") == path:
                    return int(pid)
        except OSError:
            continue
    return None


def test_counted_by_call(server):
    session = server.create()
    equal(refused(server, session), {})
    got = calls(server, session, mount=3, perf_event_open=2, io_uring_setup=1, clone3=5, getpid=7)
    for name in ("mount", "perf_event_open", "io_uring_setup"):
        equal(got[name], [-1, 1], name)  # EPERM, as without a watcher
    equal(got["clone3"], [-1, 38])  # ENOSYS is answered by the filter alone
    equal(refused(server, session), {"mount": 3, "perf_event_open": 2, "io_uring_setup": 1})
    equal(refused(server, server.create()), {}, "of another session")


def test_the_page_names_the_calls_of_escapes(server):
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    with open(os.path.join(top, "src/daemon/alarms/refused_calls.c")) as f:
        source = re.search(r"of_escapes\[\] = \{(.*?)\};", f.read(), re.S)[1]
    with open(os.path.join(top, "doc/traces.md")) as f:
        page = re.search(r"These calls raise.*?them: (.*?)\. A program", f.read(), re.S)[1]
    equal(sorted(re.findall(r"\w+", page)), sorted(re.findall(r'"(\w+)"', source)))


def test_both_profiles_and_users(server):
    for spec in ({"profile": "locked"}, {"profile": "standard"}):
        session = server.create(**spec)
        equal(calls(server, session, bpf=2)["bpf"], [-1, 1])
        equal(refused(server, session)["bpf"], 2)
    server.run(session["id"], ["python3", "-c", PROBE, json.dumps([[CALLS["bpf"], 3]])], user="root")
    equal(refused(server, session)["bpf"], 5)


def test_escapes_raise_an_alarm(server):
    session = server.create()
    calls(server, session, perf_event_open=50)
    calls(server, session, bpf=2, setns=1)
    told = wait_for(lambda: alarms(server, session, "escape_attempt"), 20, "the alarm")[0]
    equal((told["severity"], told["value"]), ("critical", 3))
    has(told["calls"], "bpf 2")
    equal(alarms(server, session, "refused_calls"), [])
    equal(server.get(session["id"])["state"], "running")


def test_an_escape_attempt_ends_the_session(server):
    """Not as a crash, a timeout or an end of memory: those have reasons of their own."""
    session = server.create(alarms={"escape_attempt": {"action": "end"}})
    calls(server, session, bpf=1, wait=False)
    ended = server.reaches(session["id"], "ended", 20)
    equal((ended["reason"], ended["refused_calls"]), ("alarm", {"bpf": 1}))
    has(ended["detail"], "escape_attempt")


def test_a_burst_raises_an_alarm(server):
    session = server.create(alarms={"refused_calls": {"threshold": 300}})
    calls(server, session, perf_event_open=299)
    time.sleep(1.5)  # it looks each second: after this time an alarm would have come
    equal(alarms(server, session, "refused_calls"), [])
    calls(server, session, perf_event_open=600)
    told = wait_for(lambda: alarms(server, session, "refused_calls"), 20, "the alarm")[0]
    check(told["value"] >= 300, str(told))
    has(told["calls"], "perf_event_open")


def test_counts_outlive_cordond_and_the_cell(server):
    session = server.create()
    calls(server, session, perf_event_open=4)
    server.kill("cordond")
    server.wait_ready()
    equal(refused(server, session), {"perf_event_open": 4})
    calls(server, session, perf_event_open=1, mount=1)
    wait_for(lambda: alarms(server, session, "escape_attempt"), 20, "the alarm")
    server.want(200, "POST", f"/v1/sessions/{session['id']}/pause", {"memory": False})
    server.reaches(session["id"], "stopped", 40)
    equal(refused(server, session), {"mount": 1, "perf_event_open": 5}, "without a cell")
    time.sleep(1.5)  # it is written within a second
    server.kill("cordond")
    server.wait_ready()
    equal(calls(server, session, perf_event_open=2)["perf_event_open"], [-1, 1])
    equal(refused(server, session), {"mount": 1, "perf_event_open": 7}, "of two cells")
    server.delete(session["id"])
    server.reaches(session["id"], "ended", 40)
    equal(refused(server, session), {"mount": 1, "perf_event_open": 7}, "of an ended one")


def test_no_cell_has_the_listener(server):
    """Its holder could let refused calls pass: not even PID 1 has it, and no process of the cell sees the watcher."""
    session = server.create()
    pid = watcher(server, session)
    for process in server.cell_pids(session["id"]):
        links = [os.readlink(f"/proc/{process}/fd/{fd}") for fd in os.listdir(f"/proc/{process}/fd")]
        check(not [link for link in links if "seccomp" in link or ".calls" in link], str(links))
        check(process != pid, "it is not in the cell")
    seen = server.run(session["id"], "cat /proc/[0-9]*/comm", user="root")["stdout"]
    check("cordon-watch" not in seen, seen)
    with open(f"/proc/{pid}/status") as f:
        status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
    equal([status[name].strip() for name in ("CapEff", "CapPrm", "NoNewPrivs", "Seccomp")], ["0" * 16, "0" * 16, "1", "2"])
    equal(sorted(os.listdir(f"/proc/{pid}/fd")), ["0", "1", "2"])
    check(int(status["Uid"].split()[0]) > 65535, "an id of the cell")
    for other in server.pids("cordond"):
        links = []
        for fd in os.listdir(f"/proc/{other}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed since
                links.append(os.readlink(f"/proc/{other}/fd/{fd}"))
        check(not [link for link in links if "seccomp" in link], "cordond cannot answer for it")


def test_a_flood_is_slowed_down(server):
    """The one who floods waits. The next session does not."""
    flood, other = server.create(limits={"pids": 64}), server.create()
    pid = watcher(server, flood)
    calls(server, flood, perf_event_open=10**7, wait=False)
    wait_for(lambda: refused(server, flood).get("perf_event_open", 0) > 5000, 40, "more than a burst")
    before, begun, ticks = refused(server, flood)["perf_event_open"], time.monotonic(), cpu(pid)
    while time.monotonic() - begun < 2:
        equal(calls(server, other, perf_event_open=10)["perf_event_open"], [-1, 1])
    seconds = time.monotonic() - begun
    rate = (refused(server, flood)["perf_event_open"] - before) / seconds
    check(rate < 6000, f"{rate} calls a second")
    check((cpu(pid) - ticks) / seconds < 0.5, "of a processor")
    server.want(200, "POST", f"/v1/sessions/{flood['id']}/pause")
    server.reaches(flood["id"], "paused", 20)  # a call that waits does not keep it from being frozen
    server.want(200, "POST", f"/v1/sessions/{flood['id']}/resume")
    server.delete(flood["id"])


def cpu(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_threads_signals_and_exits_while_calls_wait(server):
    """A watcher that is stopped keeps them waiting: they can be interrupted, and can end."""
    session = server.create()
    pid = watcher(server, session)
    os.kill(pid, signal.SIGSTOP)
    try:
        held = [calls(server, session, perf_event_open=1, wait=False) for _ in range(5)]
        time.sleep(0.5)  # long enough for the end of a program that does not wait
        equal([server.execution(x)["state"] for x in held], ["running"] * 5)
        equal(server.run(session["id"], "echo works")["stdout"], "works\n", "other calls do not wait")
        server.want(204, "DELETE", f"/v1/sessions/{session['id']}/executions/{held[0]['id']}")
        equal(server.ended(held[0])["state"], "killed")
    finally:
        os.kill(pid, signal.SIGCONT)
    for x in held[1:]:
        equal(server.ended(x)["exit_code"], 0)


def test_the_watcher_dies(server):
    session, other = server.create(), server.create()
    os.kill(watcher(server, session), signal.SIGKILL)
    wait_for(lambda: watcher_now(server, session) is None, 10, "its end")
    got = calls(server, session, bpf=1, mount=1)
    equal(got, {"bpf": [-1, 38], "mount": [-1, 38]}, "still refused")
    told = wait_for(lambda: alarms(server, session, "cell_fault"), 20, "the alarm")[0]
    has(told["what"], "watcher")
    equal(refused(server, session), None, "not known any more")
    equal(server.run(session["id"], "echo works")["stdout"], "works\n")
    calls(server, other, bpf=1)
    equal(refused(server, other), {"bpf": 1})


def test_a_listener_of_a_program(server):
    """A program that wants to be notified itself is told that there is a listener."""
    listen = ("import ctypes, struct\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.prctl(38, 1, 0, 0, 0)\n"
              "code = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))\n"
              "prog = ctypes.create_string_buffer(struct.pack('HxxxxxxP', 1, ctypes.addressof(code)))\n"
              "print(libc.syscall(%d, 1, 8, prog), ctypes.get_errno(), libc.syscall(%d, 1, 0, prog))" % ((317,) * 2 if os.uname().machine == "x86_64" else (277,) * 2))
    equal(server.run(server.create()["id"], ["python3", "-c", listen])["stdout"], "-1 16 0\n")


def test_watchers_end_with_their_cells(server):
    session = server.create()
    pid = watcher(server, session)
    os.kill(server.cell_pids(session["id"])[0], signal.SIGKILL)
    server.reaches(session["id"], "ended", 40)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}") or open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1][0] == "Z", 10, "its end")
    check(not os.path.exists(os.path.join(server.run_dir, "cells", session["id"] + ".calls")), "its file")


def test_switched_off():
    with Server(pool_size=1, refused_calls="no") as server:
        session = server.create()
        equal(calls(server, session, bpf=1), {"bpf": [-1, 1]})
        equal((refused(server, session), watcher_now(server, session)), (None, None))


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)

#!/usr/bin/python3 -B
"""Goal: a process that shares the memory of PID 1 until it executes its program (cell/init/pid1/spawn_child.h) gets its own
request, and the programs of its cell can neither read or write that memory nor hold up PID 1 by it.

    test_starts.py CORDON [name ...]
"""
import json

from harness import check, equal, run_tests, wait_for

# A user's process can be stopped by others of that user while it looks for its program: it looks in many places.
PLACES = 2000
SLOW = "/a:" * PLACES + "/usr/bin"
# Stops the first process that is about to become a program, prints what is allowed on it, and lets it go on when
# /tmp/go is there. The process ids of a cell are given in ascending order.
CATCH = r"""
import ctypes, json, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)

def word(pid, name):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith(name + ":"):
            return line.split()[1]

def stop(pid):
    try:
        os.kill(pid, signal.SIGSTOP)
        while (state := word(pid, "State")) not in "TZX":
            pass
        if state == "T" and word(pid, "Name") == "cordon-init" and (os.geteuid() == 0 or word(pid, "Uid") != "0"):
            return True
        os.kill(pid, signal.SIGCONT)
    except OSError:
        pass
    return False

def tried(function):
    try:
        function()
        return "allowed"
    except OSError as e:
        return e.strerror

def attach(pid):
    if libc.ptrace(16, pid, 0, 0) < 0:  # PTRACE_ATTACH
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

print("ready", flush=True)
while True:
    pids = sorted(int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) > os.getpid())
    caught = next((p for p in pids if stop(p)), None)
    if caught:
        break
what = {mode: tried(lambda: os.close(os.open(f"/proc/{caught}/mem", flags)))
        for mode, flags in (("read", os.O_RDONLY), ("write", os.O_RDWR))}
what["maps"] = tried(lambda: open(f"/proc/{caught}/maps").read())
what["trace"] = tried(lambda: attach(caught))
print(json.dumps(what), flush=True)
while not os.path.exists("/tmp/go"):
    time.sleep(0.01)  # between two looks
os.kill(caught, signal.SIGCONT)
"""


def lines(server, x):
    path = f"/v1/sessions/{x['session_id']}/executions/{x['id']}/output?stream=stdout"
    return server.request("GET", path, raw=True)[2].decode().splitlines()


def catch(server, user):
    s = server.create()["id"]
    catcher = server.spawn(s, ["python3", "-c", CATCH], user=user)
    wait_for(lambda: lines(server, catcher), 20, "the catcher")
    started = []

    def caught():
        started.append(server.spawn(s, ["true"], user=user, env={"PATH": SLOW}))
        return lines(server, catcher)[1:]

    allowed = json.loads(wait_for(caught, 60, "a process that is caught")[0])
    equal(allowed, {"read": "Permission denied", "write": "Permission denied", "maps": "Permission denied",
                    "trace": "Operation not permitted"}, f"of {user}")
    equal(server.run(s, "echo runs", user=user)["stdout"], "runs\n", "beside a process that is stopped")
    check(any(not server.execution(x)["ended_at"] for x in started), "none is stopped")
    equal(server.run(s, "touch /tmp/go")["exit_code"], 0)
    for x in started:
        equal(server.ended(x)["exit_code"], 0, "exit code of a program that was stopped before it was one")
    equal(server.ended(catcher)["exit_code"], 0)
    server.delete(s)


def test_its_user_cannot_look_into_a_process_that_is_being_started(server):
    catch(server, "user")


def test_root_of_the_cell_cannot_look_into_a_process_that_is_being_started(server):
    catch(server, "root")


def test_what_starts_at_once_is_not_mixed_up(server):
    s = server.create()["id"]
    places, users = ("/tmp", "/etc", "/usr"), {"root": "0", "user": "1000"}
    started = []
    for i in range(24):
        word = "x" * (30000 if i % 5 == 4 else 3000)
        line = f'echo "{i} $0 $OWN $PWD $(id -u)"'
        more = {"env": {"OWN": f"own-{i}", "PATH": SLOW}, "cwd": places[i % 3], "user": list(users)[i % 2]}
        started.append((word, server.spawn(s, [f"missing-{i}", word] if i % 4 == 3 else ["sh", "-c", line, word], **more)))
    for i, (word, x) in enumerate(started):
        done = server.ended(x)
        if i % 4 == 3:
            equal(done["exit_code"], 127, f"program {i}, which does not exist")
            continue
        equal(" ".join(lines(server, x)).split(),
              [str(i), word, f"own-{i}", places[i % 3], list(users.values())[i % 2]], f"program {i}")
    server.delete(s)


if __name__ == "__main__":
    run_tests(globals())

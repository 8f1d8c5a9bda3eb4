#!/usr/bin/python3 -B
"""Goal: whoever attacks the server, whatever he has taken over already, gets nothing and holds up nobody.

    test_attacks.py CORDON HOSTILE_INIT [name ...]

HOSTILE_INIT takes the place of cordon-init: a PID 1 that was taken over (hostile_init.c).
"""
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time

import harness
from harness import USER, Server, check, equal, has, rss, run_tests, stays, wait_for
from streams import Events, Wire

KILLS = True  # of our own servers
HOSTILE = ""


# -- a PID 1 that was taken over


@contextlib.contextmanager
def hostile_server(**settings):
    """A server whose cells are all hostile."""
    folder = tempfile.mkdtemp(prefix="cordon-hostile-", dir="/var/tmp")
    try:
        os.chmod(folder, 0o755)
        for name in harness.PROGRAMS:
            shutil.copy(os.path.join(os.path.dirname(harness.PROGRAM), name), folder)
        shutil.copy(HOSTILE, os.path.join(folder, "cordon-init"))
        with Server(os.path.join(folder, "cordon"), pool_size=0, **settings) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def unharmed(server):
    """What happens in here is no concern of the daemon's, nor of another session."""
    other = server.create()["id"]
    before, fds = server.pid("cordond"), open_fds(server)
    yield
    began = time.monotonic()
    server.want(200, "GET", "/healthz", timeout=20)
    check(time.monotonic() - began < 5, "the daemon is busy")
    equal(server.pid("cordond"), before, "the daemon's pid")
    equal(server.get(other)["state"], "running", "another session")
    server.delete(other)
    wait_for(lambda: open_fds(server) <= fds + 8, 15, "descriptors to be closed")


def open_fds(server):
    return len(os.listdir(f"/proc/{server.pid('cordond')}/fd"))


def start(server, word, **spec):
    """Of a hostile cell: (session, answer to the execution)."""
    session = server.create()["id"]
    return session, server.want(202, "POST", f"/v1/sessions/{session}/executions", {"command": word, **spec})


def test_pid1_starts_a_program_again_and_again():
    with hostile_server() as server, unharmed(server):
        session, _ = start(server, "often")
        equal(server.reaches(session, "ended")["reason"], "crashed")
        time.sleep(0.5)  # its programs go on writing into pipes that cordond has closed


def test_pid1_hands_in_a_terminal_that_blocks():
    with hostile_server() as server, unharmed(server):
        session, x = start(server, "terminal", stdin_stream=True)
        path = f"/v1/sessions/{session}/executions/{x['id']}/input"
        status, _, _ = server.request("POST", path, b"x\n" * 500_000, timeout=10)
        check(status in (409, 410), f"input: {status}")
        equal(server.reaches(session, "ended")["reason"], "crashed")


def test_pid1_sends_what_is_no_pipe_and_no_message():
    with hostile_server() as server, unharmed(server):
        for word in ("wrong", "babble"):
            session, _ = start(server, word)
            server.reaches(session, "ended")


def test_pid1_starts_what_has_ended():
    with hostile_server() as server, unharmed(server):
        session, x = start(server, "grave")
        done = server.ended(x)
        equal((done["state"], done["stdout_bytes"]), ("exited", 0))
        stays(lambda: server.execution(x)["state"] == "exited", 0.2, "the end of the execution")
        server.delete(session)


def test_pid1_lies_about_numbers():
    with hostile_server() as server, unharmed(server):
        session, x = start(server, "lie")
        done = server.ended(x)
        equal((done["exit_code"], done["stdout_bytes"]), (255, 5))
        usage = server.get(session)["usage"]
        check(usage["memory_peak_bytes"] < 1 << 30 and usage["cpu_ms"] < 60_000, f"not the kernel's word: {usage}")
        server.want(200, "GET", f"/v1/sessions/{session}/metrics")
        server.delete(session)


def test_pid1_answers_a_read_twice():
    with hostile_server() as server, unharmed(server):
        session = server.create()["id"]
        try:
            status, _, body = server.request("GET", f"/v1/sessions/{session}/files?path=/twice", raw=True)
        except (OSError, harness.http.client.HTTPException):
            status, body = 0, b""  # dropped: the client sees that it is not whole
        check(status == 0 or body == b"0123456789" or status == 500, f"{status} {body[:80]}")
        server.delete(session)


def test_pid1_hangs_up_and_comes_back():
    with hostile_server() as server, unharmed(server):
        session = server.create()["id"]
        wire = Wire(server, f"/v1/sessions/{session}/files?path=/hangup", {}, receive_buffer=4096)
        time.sleep(2)  # a slow client: the pipe fills, its writer closes it and opens it again
        wire.socket.settimeout(1)
        with contextlib.suppress(OSError):
            while wire.socket.recv(1 << 20):
                pass
        wire.socket.close()
        server.delete(session)


def test_pid1_floods():
    with hostile_server() as server, unharmed(server):
        session = server.create(limits={"cpus": 2})["id"]
        wires = [socket.create_connection(server.address) for _ in range(2)]
        for s in wires:
            s.sendall(f"GET /v1/sessions/{session}/files?path=/flood HTTP/1.1\r\nHost: x\r\n".encode())
            s.sendall(f"X-API-Key: {server.key}\r\n\r\n".encode())
        time.sleep(0.5)  # the flood has no sign that it is at its height
        worst = 0
        for _ in range(30):
            began = time.monotonic()
            server.want(200, "GET", "/healthz", timeout=20)
            worst = max(worst, time.monotonic() - began)
        check(worst < 5, f"{worst:.2f} s for a health check beside a flood")
        for s in wires:
            s.close()
        server.delete(session)


def test_pid1_holds_more_than_there_is():
    with hostile_server() as server:
        session, x = start(server, "lie")
        server.ended(x)
        server.kill("cordond")
        server.wait_ready()
        with unharmed(server):
            equal(server.reaches(session, "ended")["reason"], "crashed")
            has(server.log(), "holds more than", "log")


# -- code in a session


def test_builtins_cannot_be_touched_from_inside(server):
    """Neither root of the cell nor the built-in's own user gets at its pipes or its memory."""
    session = server.create()["id"]
    with Events(server, f"/v1/sessions/{session}/files/watch?path=/home/user") as events:
        equal(next(iter(events)).name, "ready")
        look = (
            'for p in /proc/[0-9]*; do case $(cat $p/comm) in cordon-builtin) '
            'echo found; readlink $p/fd/1 >/dev/null && echo fds; cat $p/environ 2>/dev/null | head -c 1 | grep -q . '
            '&& echo environ; (echo >$p/fd/1) 2>/dev/null && echo wrote; kill -0 ${p#/proc/} 2>/dev/null && echo $(id -u);; '
            "esac; done"
        )
        for user in ("user", "root"):
            said = server.run(session, look, user=user)["stdout"].split()
            check("found" in said, f"no built-in seen: {said}")
            equal([w for w in said if w in ("fds", "environ", "wrote")], [], f"as {user}")
    server.delete(session)


def test_hostile_trees(server):
    session = server.create()["id"]
    files = f"/v1/sessions/{session}/files"
    made = server.run(
        session,
        r"""cd /home/user && mkdir t many && cd t && mkfifo fifo && truncate -s 1T sparse && ln -s / root && ln -s loop loop
        printf x >"$(printf 'a\nb')"; printf x >"$(printf '\033[2J')"; printf x >"$(printf '\377\376')"
        cd ../many && seq 20000 | xargs touch && echo done""",
    )
    has(made["stdout"], "done", made["stderr"])
    names = [e["name"] for e in server.want(200, "GET", files + "/list?path=t")["entries"]]
    equal(sorted(names), sorted(["fifo", "sparse", "root", "loop", "a\nb", "\x1b[2J", "\ufffd\ufffd"]))
    server.want(400, "GET", files + "?path=t/fifo")
    server.want(409, "GET", files + "?path=t/loop")
    part = server.want(206, "GET", files + "?path=t/sparse", headers={"Range": "bytes=1099511627770-"}, raw=True)
    equal(part, b"\0" * 6)
    some = server.want(200, "GET", files + "/list?path=many&limit=10")
    equal((len(some["entries"]), some["truncated"]), (10, True))
    began = time.monotonic()
    with Wire(server, files + "?path=t/sparse", {}) as wire:  # begun, and given up
        equal(wire.status, 200)
    with Wire(server, files + "/tar?path=.", {}) as wire:
        equal(wire.status, 200)
    server.want(200, "GET", "/healthz")
    check(time.monotonic() - began < 5, "a terabyte of nothing holds up the daemon")
    server.delete(session)


def test_a_place_that_changes_while_it_is_used(server):
    """A rule for /home/user/out, and a program that makes it lead elsewhere, again and again."""
    session = server.create(rules={"exportable": ["/home/user/out"], "writable": ["/home/user/out"]})["id"]
    files = f"/v1/sessions/{session}/files"
    server.run(session, "cd; mkdir out; echo in >out/f; mkdir secret; echo secret >secret/f")
    x = server.spawn(session, "cd; while :; do ln -sfn /home/user/secret out/d; rm out/d; mkdir out/d; rmdir out/d; done")
    until, answers = time.monotonic() + 2, set()
    while time.monotonic() < until:
        status, _, body = server.request("GET", files + "?path=out/d/f", raw=True)
        check(b"secret\n" != body, "read over a link that leads out")
        answers.add(status)
        status, _, _ = server.request("PUT", files + "?path=out/d/new", b"x", raw=True)
        answers.add(status)
    check(answers <= {200, 201, 403, 404, 409}, f"{answers}")
    server.want(204, "DELETE", f"/v1/sessions/{session}/executions/{x['id']}")
    equal(server.run(session, "ls secret")["stdout"], "f\n", "what is outside")
    server.delete(session)


def test_cursors_of_a_log_are_not_believed(server):
    """A program writes what looks like a record's head; a reader points into the middle of it."""
    session = server.create()["id"]
    x = server.run(session, r"printf '\377\377\377\377\001\000\000\000%0200d' 7; printf '\001\000%.0s' $(seq 500)")
    path = f"/v1/sessions/{session}/executions/{x['id']}/events?after="
    for at in [*range(0, 64, 3), 1 << 20, (1 << 40) - 1]:
        for skip in (0, 1, 0xFFFFFF):
            cursor = at << 24 | skip
            with Wire(server, path + str(cursor), {"Connection": "close"}, timeout=5) as wire:
                equal(wire.status, 200)
                with contextlib.suppress(EOFError):
                    while len(wire.bytes) < 1 << 20:
                        wire.more()
            check(len(wire.bytes) < 1 << 20, f"cursor {cursor} reads on and on")
    server.delete(session)


# -- a client with another tenant's key


def test_another_tenants_things_do_not_exist(server):
    _, mine = server.tenant("attacked")
    _, theirs = server.tenant("attacker")
    session = server.create(key=mine, metadata={"secret": "s3cr3t-name"})["id"]
    x = server.run(session, "echo s3cr3t-output", key=mine)["id"]
    page = server.want(200, "GET", "/v1/sessions?limit=1", key=mine)
    missing = {}
    base, execution = f"/v1/sessions/{session}", f"/v1/sessions/{session}/executions/{x}"
    paths = [("GET", base + p) for p in ("", "/events", "/metrics", "/diff", "/executions", "/processes")]
    paths += [("GET", base + "/files" + p) for p in ("?path=/", "/list?path=/", "/stat?path=/", "/tar?path=/", "/watch?path=/")]
    paths += [("GET", execution + p) for p in ("", "/output", "/events")]
    paths += [("POST", base + "/pause"), ("POST", base + "/resume"), ("DELETE", base), ("DELETE", execution)]
    for method, path in paths:
        status, _, body = server.request(method, path, key=theirs, raw=True)
        other = path.replace(session, "i" + "0" * 16).replace(x, "exe_" + "0" * (len(x) - 4))
        nothing = server.request(method, other, key=theirs, raw=True)
        missing[method, path] = status
        equal((status, nothing[0]), (404, 404), f"{method} {path}")
        strip = lambda b: {k: v for k, v in json.loads(b)["error"].items() if k in ("code", "fault")}  # noqa: E731
        equal(strip(body), strip(nothing[2]), f"{method} {path}")
    for path in ("/v1/sessions?ended=any", "/v1/sessions?metadata.secret=s3cr3t-name", "/v1/events?after=0&limit=1000", "/metrics"):
        body = server.request("GET", path, key=theirs, raw=True)[2]
        check(session.encode() not in body and b"s3cr3t" not in body, f"{path} tells of it")
    if page["next"]:
        again = server.request("GET", f"/v1/sessions?after={page['next']}", key=theirs, raw=True)[2]
        check(session.encode() not in again, "a cursor of theirs")
    equal(server.get(session, mine)["state"], "running")
    server.delete(session, mine)


# -- more than there is room for


def test_silent_connections_make_room():
    with Server(connections_max=50, pool_size=0) as server:
        silent = [socket.create_connection(server.address) for _ in range(50)]
        wait_for(lambda: server.request("GET", "/healthz", key=None)[0] == 200, 15, "room", 0.1)
        for s in silent:
            s.close()


def lingering():
    """A connection whose close(2) waits for a peer who does not read; and that peer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        s = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
    s.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            s.send(bytes(65536))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 30))
    return s, peer


def test_descriptors_that_nobody_asked_for(server):
    """Everybody on the machine may connect to the Unix socket, and send what the process that closes it waits for."""
    path = os.path.join(server.run_dir, "cordon.sock")
    with unharmed(server):
        for data, count in ((b"GET /healthz HTTP/1.1\r\n", 1), (b"\0\r\n\r\n", 1), (b"x" * 40000, 1), (b"x", 200)):
            s, peer = lingering()
            daemon = server.pid("cordond")
            with peer, socket.socket(socket.AF_UNIX) as c:
                os.kill(daemon, signal.SIGSTOP)  # else it would be us who close it last
                try:
                    c.connect(path)
                    with contextlib.suppress(PermissionError):  # Linux 6.16 refuses them for us
                        socket.send_fds(c, [data], [s.fileno()] * count)
                        socket.send_fds(c, [b"y"], [s.fileno()])
                        s.close()
                finally:
                    os.kill(daemon, signal.SIGCONT)
                c.settimeout(0.5)
                with contextlib.suppress(OSError):
                    c.recv(1)
                c.close()
                began = time.monotonic()
                server.want(200, "GET", "/healthz", timeout=60)
                check(time.monotonic() - began < 5, f"the daemon waited: {data[:20]!r}, {count}")
            s.close()


def test_answers_that_nobody_reads_are_bounded(server):
    """Each is 12 MiB, of a request of a few bytes; a hundred of them would be over a gigabyte."""
    sessions = [server.create()["id"] for _ in range(2)]
    body = json.dumps({"command": "head -c 1048576 /dev/zero | tee /dev/stderr"}).encode()
    unread, worst = [], 0
    for i in range(90):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(server.address)
        head = f"POST /v1/sessions/{sessions[i % 2]}/executions?wait=true HTTP/1.1\r\nHost: x\r\n"
        s.sendall(f"{head}X-API-Key: {server.key}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        unread.append(s)
    most, quiet = 0, time.monotonic() + 15
    while time.monotonic() < quiet:
        began = time.monotonic()
        server.want(200, "GET", "/healthz")
        worst, most = max(worst, time.monotonic() - began), max(most, rss(server.pid("cordond")))
        if not any(server.get(i)["executions_running"] for i in sessions):
            break
    check(most < 900 << 20, f"{most >> 20} MiB")
    check(worst < 8, f"{worst:.1f} s for a health check")
    for s in unread:
        s.close()
    for i in sessions:
        server.delete(i)


def test_input_that_nobody_reads_is_bounded(server):
    """Each is a MiB that stays with the daemon, whose client has long been answered."""
    sessions = [server.create(limits={"memory": "64M"})["id"] for _ in range(5)]
    spec = {"command": "sleep 1000", "stdin": "x" * 1_000_000}
    codes = [server.request("POST", f"/v1/sessions/{sessions[i // 60]}/executions", spec) for i in range(300)]
    refused = [body["error"]["code"] for status, _, body in codes if status == 429]
    check(refused and set(refused) == {"capacity_input"}, f"{set(refused)}")
    check(rss(server.pid("cordond")) < 450 << 20, f"{rss(server.pid('cordond')) >> 20} MiB")
    for i in sessions:
        server.delete(i)
    session = server.create()["id"]
    equal(server.run(session, "wc -c", stdin="x" * 1_000_000)["stdout"].strip(), "1000000", "room again")
    server.delete(session)


def turns(server):
    """Turns of the loop so far."""
    text = server.want(200, "GET", "/metrics", raw=True).decode()
    return int(float(re.search(r"^cordon_loop_turn_seconds_count (\S+)$", text, re.M)[1]))


def test_a_search_through_much_is_done_in_pieces():
    with Server(pool_size=0, tenant_max_storage=0) as server:
        metadata = {f"k{i}": "v" * 230 for i in range(60)}
        small = {"memory": "8M", "disk": "1M"}
        ids = [server.create(metadata=metadata | {"n": str(i)}, limits=small)["id"] for i in range(150)]
        before = turns(server)
        page = server.want(200, "GET", "/v1/sessions?metadata.n=0")
        equal([s["id"] for s in page["sessions"]], ids[:1])
        equal(page["next"], None)
        took = turns(server) - before  # how many pieces fit into a turn depends on the machine
        check(took > 8, f"2 MiB of metadata in {took} turns")


def test_records_of_a_session_are_bounded():
    with Server(execution_records_max=3) as server:
        session = server.create()["id"]
        for _ in range(3):
            server.run(session, "true")
        for _ in range(2):
            server.refused(429, "quota_records", "POST", f"/v1/sessions/{session}/executions", {"command": "true"}, "3")
            server.restart()


def test_odd_json(server):
    for body, part in [
        (b"[" * 100_000, "deep"),
        (b'{"a":' * 50_000, "deep"),
        (b'{"timeout":1e400}', "JSON"),
        (b'{"timeout":99999999999999999999999}', "JSON"),
        (b'{"metadata":{"a":"b","a":"c"}}', "duplicate"),
        (b'{"limits":{"memory":1e308}}', "limits.memory"),
        (b'{"limits":{"memory":-1}}', "limits.memory"),
        (b'{"template":"a\\u0000b"}', "JSON"),
        (b'{"metadata":{"\\ud800":"x"}}', "JSON"),
        (b"\xff\xfe", "JSON"),
    ]:
        server.refused(400, "invalid", "POST", "/v1/sessions", body, part, headers={"Content-Type": "application/json"})


# -- another user of the machine, and a daemon that was taken over


def test_files_are_nobody_elses(server):
    server.create()
    for top in (server.state, server.run_dir):
        for folder, folders, files in os.walk(top):
            for name in files + folders:
                if os.lstat(folder).st_mode & 0o077 == 0:
                    continue  # nobody gets that far
                mode = os.lstat(os.path.join(folder, name)).st_mode & 0o077
                public = folder == server.run_dir and name == "cordon.sock"
                equal(mode, 0o066 if public else 0, f"{folder}/{name}")
    for name in ("supervisor", "cordond", "keeper"):
        for file in ("cmdline", "environ"):
            with open(f"/proc/{server.pid(name)}/{file}", "rb") as f:
                check(server.key.encode() not in f.read(), f"the key is in {file} of {name}")
    check(server.key not in server.log(), "the key is in the log")


def test_where_cgroups_are_is_not_cordonds_word():
    """The file is in his folder; the supervisor, who is root, makes and kills where it says."""
    with Server(pool_size=0) as server:
        server.stop()
        path, trap = os.path.join(server.run_dir, "cgroups"), os.path.join(server.run_dir, "trap")
        with open(path) as f:
            right = f.read()
        os.mkdir(trap)
        for uid, target in ((USER, trap), (USER, "/sys/fs/cgroup"), (0, trap)):
            os.unlink(path)
            with open(path, "w") as f:
                f.write("".join((target if line else "") + "\n" for line in right.splitlines()))
            os.chown(path, uid, uid)
            server.start()
            server.run(server.create()["id"], "true")
            server.delete_all()
            server.stop()
            equal(os.listdir(trap), [], "made in the trap")
            with open(path) as f:
                equal(f.read(), right)
            equal(os.lstat(path).st_uid, 0)
        os.rmdir(trap)
        server.start()


if __name__ == "__main__":
    if "HOSTILE_INIT" not in os.environ:  # the harness starts us again, with what is left of the arguments
        os.environ["HOSTILE_INIT"] = os.path.abspath(sys.argv.pop(2))
    HOSTILE = os.environ["HOSTILE_INIT"]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    run_tests(globals(), pool_size=0)

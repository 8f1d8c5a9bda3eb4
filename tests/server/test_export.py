#!/usr/bin/python3 -B
"""Goal: what happened arrives at the tools that people have, whole and in their form, whoever is killed on the way.

    test_export.py CORDON [name ...]
"""
import fcntl
import glob
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Failed, Skip, check, equal, has, run_tests, wait_for  # noqa: E402
from otlp_receiver import Receiver, facts  # noqa: E402

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
LOG = re.compile(r"cordon\.[0-9a-f]+/ten_[a-z0-9]+/1$")


class Folder:
    """A place for cursors and files, and the client that exports."""

    def __init__(self, server):
        self.server, self.path = server, tempfile.mkdtemp(prefix="export-", dir=server.folder)

    def file(self, name):
        return os.path.join(self.path, name)

    def command(self, *options, cursor="cursor"):
        client = os.path.join(os.path.dirname(self.server.program), "cordon-client")
        return [client, "export", "--server", self.server.url, "--cursor", self.file(cursor), "--interval", "100ms", *options]

    def environment(self):
        return dict(os.environ, CORDON_API_KEY=self.server.key)

    def once(self, *options, code=0, cursor="cursor"):
        done = subprocess.run(self.command("--once", *options, cursor=cursor), env=self.environment(), capture_output=True, text=True, timeout=120)
        equal(done.returncode, code, done.stderr)
        return done.stderr

    def start(self, *options, cursor="cursor"):
        return subprocess.Popen(self.command(*options, cursor=cursor), env=self.environment(), stderr=subprocess.PIPE, text=True)

    def cursor(self, name="cursor"):
        with open(self.file(name)) as f:
            return json.load(f)


def audit(server):
    """All records, as the server has them."""
    found, after = [], ""
    while True:
        page = server.want(200, "GET", f"/v1/audit?limit=1000{after}")
        found += [row["record"] for row in page["records"]]
        if page["next"] is None:
            return found
        after = f"&after={page['next']}"


def lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def end(process):
    process.send_signal(signal.SIGTERM)
    process.wait(20)
    process.stderr.close()


def locked(path):
    with open(path) as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def work(server, **more):
    s = server.create(**more)["id"]
    done = server.run(s, "python3 -c 'import urllib.request as u; u.urlopen(\"http://refused.example/\")'; exit 3", record="text")
    wait_for(lambda: server.want(200, "GET", f"/v1/sessions/{s}/network/log")["records"], 20, "the refusal")
    server.delete(s)
    server.reaches(s, "ended")
    return s, done["id"]


def test_a_trace_given_by_the_client(server):
    """By member or header. A header that is none is left aside, a member is refused."""
    equal(server.create(traceparent=PARENT)["traceparent"], PARENT)
    equal(server.create()["traceparent"], None)
    status, _, made = server.request("POST", "/v1/sessions", {}, headers={"traceparent": PARENT})
    equal((status, made["traceparent"]), (201, PARENT))
    status, _, made = server.request("POST", "/v1/sessions", {}, headers={"traceparent": PARENT.upper()})
    equal((status, made["traceparent"]), (201, None))
    for wrong in (PARENT[:-1], PARENT + "0", PARENT.upper(), PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32), "ff" + PARENT[2:]):
        server.refused(400, "invalid", "POST", "/v1/sessions", {"traceparent": wrong}, "traceparent")
    server.restart()
    equal(sorted(s["traceparent"] or "" for s in server.want(200, "GET", "/v1/sessions")["sessions"])[-2:], [PARENT] * 2)
    server.delete_all()


def test_network_records_of_all_sessions(server):
    """In one order, with the session of each, and of the own tenant only."""
    one, _ = work(server)
    other, _ = work(server)
    rows = server.want(200, "GET", "/v1/network/log?limit=1000")["records"]
    equal({one, other} - {r["session_id"] for r in rows}, set())
    equal([r["seq"] for r in rows], sorted(r["seq"] for r in rows))
    last = rows[-1]["seq"]
    equal(server.want(200, "GET", f"/v1/network/log?after={last}")["records"], [])
    _, stranger = server.tenant("stranger")
    equal(server.want(200, "GET", "/v1/network/log", key=stranger)["records"], [])


def test_a_file(server):
    """Each record once, in order, with the names that tell doubles apart."""
    f = Folder(server)
    s, x = work(server)
    f.once("--file", f.file("out"))
    rows = lines(f.file("out"))
    own = [r for r in rows if r["source"] == "audit"]
    equal([r["seq"] for r in own], list(range(len(own))))
    check(all(LOG.match(r["origin"]) for r in own), own[0])
    known = {r["seq"]: r for r in audit(server)}
    for r in own:
        equal(r["record"], known[r["seq"]])
        check("side" not in r, "values behind commitments")
    types = [r["type"] for r in own if r["record"].get("session") == s]
    check({"session.created", "execution.started", "execution.ended", "session.ended"} <= set(types), types)
    refused = [r for r in rows if r["source"] == "network" and r["record"]["session_id"] == s]
    check(refused and all(r["record"]["verdict"] == "deny" for r in refused), refused)
    equal(oct(os.stat(f.file("out")).st_mode & 0o777), oct(0o600))
    # What follows comes after it, and nothing twice.
    before = len(rows)
    server.create()
    f.once("--file", f.file("out"))
    rows = lines(f.file("out"))
    seqs = [r["seq"] for r in rows if r["source"] == "audit"]
    check(len(rows) > before and seqs == list(range(len(seqs))), seqs)
    # Values that can be erased only if they are wanted.
    f.once("--values", "--file", f.file("values"), cursor="other")
    check(any("side" in r for r in lines(f.file("values"))), "values")
    server.delete_all()


def test_waiting_leaves_no_records(server):
    """An exporter that has nothing to do reads the log no more, or each look would be a record to export."""
    f = Folder(server)
    running = f.start("--file", f.file("out"))

    def size():
        status, _, state = server.request("GET", "/v1/audit/checkpoint", headers={"Accept": "application/json"})
        return state["records"]

    wait_for(lambda: os.path.exists(f.file("cursor")) and f.cursor()["audit"]["next"] == size(), 20, "all of it")
    before = size()
    time.sleep(1.5)  # fifteen looks
    equal(size(), before)
    server.delete(server.create()["id"])
    wait_for(lambda: f.cursor()["audit"]["next"] == size(), 20, "the rest")
    check(size() - before < 12, size() - before)
    end(running)


def test_rotation(server):
    f = Folder(server)
    f.once("--file", f.file("out"), "--max-size", "4096", "--max-files", "3")
    names = sorted(n for n in os.listdir(f.path) if n.startswith("out"))
    equal(names, ["out", "out.1", "out.2"])
    rows = [r["seq"] for n in reversed(names) for r in lines(f.file(n)) if r["source"] == "audit"]
    equal(rows, list(range(rows[0], rows[0] + len(rows))) if rows else rows)
    check(all(os.path.getsize(f.file(n)) < 4096 + 65536 for n in names), names)
    # A part of a line that a killed export left is cut off.
    with open(f.file("out"), "ab") as out:
        out.write(b'{"source":"au')
    server.create()
    f.once("--file", f.file("out"))
    lines(f.file("out"))
    server.delete_all()


def test_wrong_use(server):
    f = Folder(server)
    has(f.once("--file", "a", "--otlp", "http://x", code=2), "one of")
    has(f.once("--syslog", "host:514", code=2), "udp://")
    with open(f.file("cursor"), "w") as out:
        out.write("{}")
    has(f.once("--file", f.file("out"), code=2), "not a cursor")
    os.unlink(f.file("cursor"))
    f.once("--file", f.file("out"))
    # The cursor of another log is not taken for this one's.
    made = f.cursor()
    with open(f.file("cursor"), "w") as out:
        json.dump(dict(made, audit=dict(made["audit"], log="cordon.00/ten_x")), out)
    has(f.once("--file", f.file("out"), code=125), "is of the log")
    # One program has a cursor.
    with open(f.file("cursor"), "w") as out:
        json.dump(made, out)
    running = f.start("--file", f.file("out"))
    wait_for(lambda: locked(f.file("cursor.lock")), 20, "the lock")
    has(f.once("--file", f.file("more"), code=125), "another export")
    end(running)


# ---- syslog

HEAD = re.compile(r"<(\d+)>1 (\S+) (cordon\.[0-9a-f]+) cordon - (\S+) \[meta sequenceId=\"(\d+)\"\]\[origin software=\"cordon\" swVersion=\"[0-9.]+\"\] (\{.*)$", re.S)


def message(data):
    """A message of RFC 5424: (priority, its id, the object in it)."""
    text = data.decode("ascii")
    found = HEAD.match(text)
    check(found, text[:200])
    check(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", found[2]), found[2])
    return int(found[1]), found[4], json.loads(found[6])


def frames(data):
    """Messages with their lengths in front (RFC 6587)."""
    found = []
    while data:
        n, _, data = data.partition(b" ")
        check(n.isdigit() and n[:1] != b"0" and len(data) >= int(n), n)
        found.append(message(data[:int(n)]))
        data = data[int(n):]
    return found


def complete(found, server):
    seqs = [m[2]["seq"] for m in found if m[2]["source"] == "audit"]
    equal(sorted(set(seqs)), list(range(len(set(seqs)))))
    check(len(set(seqs)) > 5, seqs)
    for priority, name, body in found:
        check(priority // 8 == 13 and priority % 8 in (3, 4, 6), priority)
        equal(name, body["record"]["code"] if body["source"] == "audit" else "NET-" + body["record"]["kind"])


def reader(listener, into):
    def run():
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            data = b""
            while piece := conn.recv(65536):
                data += piece
            into.append(data)
            conn.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_syslog_over_streams(server):
    work(server)
    f = Folder(server)
    for family, where, name in ((socket.AF_INET, ("127.0.0.1", 0), "tcp"), (socket.AF_UNIX, f.file("sock"), "unix")):
        listener, got = socket.socket(family, socket.SOCK_STREAM), []
        listener.bind(where)
        listener.listen()
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}" if name == "tcp" else f"unix:{where}"
        reader(listener, got)
        f.once("--syslog", address, cursor=name)
        wait_for(lambda: got, 20, "the end of the connection")
        complete([m for data in got for m in frames(data)], server)
        listener.close()


def test_syslog_over_datagrams(server):
    f = Folder(server)
    for family, where, name in ((socket.AF_INET, ("127.0.0.1", 0), "udp"), (socket.AF_UNIX, f.file("dgram"), "unix")):
        receiver, found = socket.socket(family, socket.SOCK_DGRAM), []
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        receiver.bind(where)
        receiver.settimeout(0.7)
        address = f"udp://127.0.0.1:{receiver.getsockname()[1]}" if name == "udp" else f"unix:{where}"

        def take():
            try:
                while True:
                    found.append(message(receiver.recv(65536)))
            except OSError:
                pass

        thread = threading.Thread(target=take)
        thread.start()
        f.once("--syslog", address, cursor=name)
        thread.join()
        complete(found, server)
        receiver.close()


def rsyslogd():
    """The program, and the folder of its modules: installed, or unpacked at CORDON_RSYSLOG."""
    root = os.environ.get("CORDON_RSYSLOG", "/")
    program = os.path.join(root, "usr/sbin/rsyslogd")
    modules = glob.glob(os.path.join(root, "usr/lib/*/rsyslog"))
    if not os.path.exists(program) or not modules:
        raise Skip("rsyslog is not installed")
    return program, modules[0]


RSYSLOG = """global(workDirectory="{place}" maxMessageSize="70k")
module(load="imtcp") module(load="imudp")
template(name="parsed" type="list") {{
  property(name="pri") constant(value=" ") property(name="app-name") constant(value=" ") property(name="msgid") constant(value=" ")
  property(name="timestamp" dateFormat="rfc3339") constant(value=" ") property(name="msg") constant(value="\\n") }}
ruleset(name="all") {{ action(type="omfile" file="{place}/got" template="parsed" flushOnTXEnd="on") }}
input(type="imtcp" port="{tcp}" address="127.0.0.1" ruleset="all")
input(type="imudp" port="{udp}" address="127.0.0.1" ruleset="all")
"""


def free_port(kind):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_read_by_rsyslog(server):
    """Another implementation reads what is sent: each record with its code, its severity and its time."""
    program, modules = rsyslogd()
    work(server)
    f = Folder(server)
    ports = {"tcp": free_port(socket.SOCK_STREAM), "udp": free_port(socket.SOCK_DGRAM)}
    with open(f.file("rsyslog.conf"), "w") as conf:
        conf.write(RSYSLOG.format(place=f.path, **ports))
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(modules))
    daemon = subprocess.Popen([program, "-n", "-f", f.file("rsyslog.conf"), "-i", f.file("pid"), "-M", modules], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        def listens():
            check(daemon.poll() is None, daemon.stderr.read() if daemon.poll() is not None else "")
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", ports["tcp"])) == 0
        wait_for(listens, 30, "rsyslogd")
        want = {r["seq"]: r for r in audit(server)}
        for way, port in ports.items():
            if os.path.exists(f.file("got")):
                os.truncate(f.file("got"), 0)
            f.once("--syslog", f"{way}://127.0.0.1:{port}", cursor=way)

            def parsed():
                found = {}
                with open(f.file("got")) as got:
                    for line in got.read().splitlines():
                        pri, name, code, stamp, body = line.split(" ", 4)
                        body = json.loads(body.lstrip("\ufeff \xef\xbb\xbf"))
                        check((name, int(pri) // 8) == ("cordon", 13), line)
                        if body["source"] == "audit":
                            equal((code, stamp[:19]), (body["record"]["code"], body["record"]["time"][:19]), line)
                            found[body["seq"]] = body["record"]
                return found
            least = len(want) if way == "tcp" else 1  # datagrams may get lost
            got = wait_for(lambda: os.path.exists(f.file("got")) and len(parsed()) >= least and parsed(), 30, f"records by {way}")
            for seq in want.keys() & got.keys():
                equal(got[seq], want[seq])
    finally:
        daemon.terminate()
        daemon.wait(20)
        daemon.stderr.close()


def test_a_receiver_that_closes(server):
    """A connection that ends before its end was there: all of it comes again."""
    f = Folder(server)
    listener, got, cut = socket.socket(), [], []
    listener.bind(("127.0.0.1", 0))
    listener.listen()

    def run():
        conn, _ = listener.accept()
        cut.append(conn.recv(10))
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        conn.close()
        reader(listener, got).join()

    threading.Thread(target=run, daemon=True).start()
    f.once("--syslog", f"tcp://127.0.0.1:{listener.getsockname()[1]}")
    wait_for(lambda: got, 20, "the second connection")
    complete([m for data in got for m in frames(data)], server)
    listener.close()


# ---- OpenTelemetry

def test_otlp(server):
    f = Folder(server)
    plain_session, _ = work(server)
    traced, x = work(server, traceparent=PARENT)
    with open(f.file("headers"), "w") as out:
        out.write("# for the test\n\nAuthorization: Bearer abc\nX-Scope: one\r\n")
    live = server.create()["id"]
    with Receiver() as r:
        f.once("--otlp", r.url, "--headers-from", f.file("headers"))
        equal(r.faults, [])
        check(all(h["Authorization"] == "Bearer abc" and h["X-Scope"] == "one" for h in r.headers), r.headers[0])
        logs = {(a["cordon.audit.origin"], a["cordon.audit.seq"]): one for one in r.logs if "cordon.audit.seq" in (a := facts(one))}
        equal(sorted(seq for _, seq in logs), list(range(len(logs))))
        known = {row["seq"]: row for row in audit(server)}
        for (_, seq), one in logs.items():
            equal(one["eventName"], known[seq]["type"])
            equal(facts(one).get("cordon.session.id"), known[seq].get("session"))
        spans = {facts(s).get("cordon.session.id"): s for s in r.spans if s["name"].startswith("session")}
        session = spans[traced]
        equal((session["traceId"], session["parentSpanId"]), (PARENT[3:35], PARENT[36:52]))
        check("parentSpanId" not in spans[plain_session] and spans[plain_session]["traceId"] != session["traceId"], "a trace of its own")
        (execution,) = [s for s in r.spans if s["name"] == "execution" and facts(s)["cordon.execution.id"] == x]
        equal((execution["traceId"], execution["parentSpanId"]), (session["traceId"], session["spanId"]))
        equal((facts(execution)["process.exit.code"], execution["status"]["code"]), (3, 2))
        has(facts(execution)["process.command_line"], "refused.example")
        check(int(session["startTimeUnixNano"]) <= int(execution["startTimeUnixNano"]) < int(execution["endTimeUnixNano"])
              <= int(session["endTimeUnixNano"]), (session, execution))
        # The refusal is a log record with a warning, in the span of its execution.
        refused = [one for one in r.logs if one["eventName"] in ("network.request", "network.dns") and facts(one)["cordon.session.id"] == traced]
        check(refused and all(one["severityNumber"] == 13 and one["traceId"] == session["traceId"] for one in refused), refused)
        check(any(one["spanId"] == execution["spanId"] for one in refused), refused)
        requests = [s for s in r.spans if s["kind"] == 3 and facts(s)["cordon.session.id"] == traced]
        check(all(s["parentSpanId"] == execution["spanId"] and s["status"]["code"] == 2 for s in requests), requests)
        names = {m["name"] for m in r.metrics}
        check({"cordon.sessions", "cordon.session.cpu.time", "cordon.session.memory.peak"} <= names, names)
        (cpu,) = [m for m in r.metrics if m["name"] == "cordon.session.cpu.time"]
        equal([facts(p)["cordon.session.id"] for p in cpu["sum"]["dataPoints"]], [live])
        for resource in r.resources:
            equal(resource["service.name"], "cordon")
            check(resource["service.instance.id"].startswith("cordon."), resource)
        # The same again from another cursor: the same ids.
        with Receiver() as again:
            f.once("--otlp", again.url, cursor="other")
            equal({s["spanId"] for s in r.spans} - {s["spanId"] for s in again.spans}, set())
    server.delete_all()


def test_read_by_another_implementation(server):
    """By the OpenTelemetry project's own definitions, from npm."""
    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.environ.get("CORDON_OTEL") or os.path.join(server.folder, "otel")
    made = subprocess.run([os.path.join(here, "../../tools/sdk-packages"), folder, os.path.join(here, "otel/package.json")],
                          capture_output=True, text=True, timeout=600)
    if made.returncode != 0:
        raise Skip(f"npm's packages cannot be installed: {made.stderr[-200:]}")
    f = Folder(server)
    work(server)
    server.create()
    with Receiver() as r:
        f.once("--otlp", r.url)
        equal({path for path, _ in r.bodies}, {"/v1/logs", "/v1/traces", "/v1/metrics"})
        with open(f.file("bodies"), "w") as out:
            for path, body in r.bodies:
                out.write(json.dumps({"path": path, "body": json.loads(body)}) + "\n")
    read = [os.path.join(folder, "bin/node"), os.path.join(here, "otel/read.js"), folder, f.file("bodies")]
    done = subprocess.run(read, capture_output=True, text=True, timeout=60)
    equal(done.returncode, 0, done.stdout + done.stderr)
    # It is strict: another member is a fault.
    with open(f.file("bodies")) as old:
        first = json.loads(old.readline())
    first["body"]["resourceLogs"][0]["unknown"] = "x"
    with open(f.file("bodies"), "w") as out:
        out.write(json.dumps(first) + "\n")
    check(subprocess.run(read, capture_output=True, timeout=60).returncode != 0, "an unknown member")
    server.delete_all()


def test_a_receiver_with_trouble(server):
    """429, 502, 503 and 504 are tried again, not before the time that the receiver names. Nothing else is. What the
    receiver refuses in a good answer is told."""
    f = Folder(server)
    with Receiver() as r:
        r.answers = [(429, {"Retry-After": "2"}, {}), (503, {}, {}), (502, {}, {}), (504, {}, {}),
                     (200, {}, {"partialSuccess": {"rejectedLogRecords": "3", "errorMessage": "too\x1bold"}})]
        began = time.monotonic()
        words = f.once("--otlp", r.url, "--metrics", "0")
        check(time.monotonic() - began > 2, "it waited")
        has(words, "answered 429")
        has(words, "refused 3 (rejectedLogRecords): too\\x1bold")
        equal(sorted(a["cordon.audit.seq"] for one in r.logs if "cordon.audit.seq" in (a := facts(one))), list(range(f.cursor()["audit"]["next"])))
    before = f.cursor()
    server.create()
    with Receiver() as r:
        for status in (400, 401, 404, 500):
            r.answers = [(status, {"Retry-After": "1"}, {"message": "no\x07"})]
            words = f.once("--otlp", r.url, "--metrics", "0", code=4)
            has(words, f"answered {status}")
            check("\x07" not in words, "control characters")
            equal(f.cursor(), before, "nothing was lost")
        # Too long for it: in smaller parts.
        server.create()
        r.answers = [(413, {}, {})]
        f.once("--otlp", r.url, "--metrics", "0")
        check(f.cursor() != before, "it came through")
    server.delete_all()


def test_batches_are_bounded(server):
    f = Folder(server)
    s = server.create()["id"]
    for _ in range(40):
        server.run(s, "true")
    with Receiver() as r:
        f.once("--otlp", r.url)
        check(max(n for _, n in r.requests) <= 4 << 20, r.requests)
        equal(r.faults, [])
    server.delete_all()


def test_kills(server):
    """The exporter is killed at any moment, the server, too, and the receiver is away at times: each record arrives."""
    f = Folder(server)
    with Receiver() as r:
        stop = threading.Event()

        def busy():
            while not stop.is_set():
                try:
                    s = server.create()["id"]
                    server.run(s, "true")
                    server.delete(s)
                except (OSError, Failed, ValueError):
                    time.sleep(0.05)  # the server restarts

        thread = threading.Thread(target=busy)
        thread.start()
        for turn in range(9):
            exporter = f.start("--otlp", r.url, "--metrics", "1s")
            time.sleep(0.05 + turn * 0.06)  # to kill it at another moment each time
            if turn == 5:
                server.restart()
            if turn % 4 == 2:
                r.answers = [(503, {}, {})] * 3
            exporter.kill()
            exporter.wait()
            exporter.stderr.close()
        stop.set()
        thread.join()
        server.wait_ready()
        f.once("--otlp", r.url)
        equal(r.faults, [])
        records = audit(server)
        got = {}
        for one in r.logs:
            a = facts(one)
            if "cordon.audit.seq" in a:
                got.setdefault(a["cordon.audit.seq"], set()).add((one["eventName"], one["timeUnixNano"]))
        want = f.cursor()["audit"]["next"]
        equal(sorted(got), list(range(want)))
        check(all(len(v) == 1 for v in got.values()), "doubles are equal")
        for record in records[:want]:
            equal({name for name, _ in got[record["seq"]]}, {record["type"]})
        ended = {rec["session"] for rec in records[:want] if rec["type"] == "session.ended"}
        equal(ended - {facts(s)["cordon.session.id"] for s in r.spans if s["name"].startswith("session")}, set())
    server.delete_all()


if __name__ == "__main__":
    run_tests(globals())

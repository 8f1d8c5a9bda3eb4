#!/usr/bin/python3 -B
"""Goal: what a session used and did is kept for its whole life, in order, without loss or double, in bounded pieces.

    test_timeline.py CORDON [name ...]
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rows  # noqa: E402
from harness import Failed, check, equal, has, run_tests, wait_for  # noqa: E402
from streams import Attached, Ended, Events  # noqa: E402
from test_turns import share, turns  # noqa: E402

KILLS = True  # of cordond


def resources(server, session, **more):
    return server.want(200, "GET", f"/v1/sessions/{session}/resources", **more)


def grow(points):
    """Counters never fall, and times go on."""
    for before, after in zip(points, points[1:]):
        check(before["time"] <= after["time"], (before, after))
        for name in ("cpu_ms", "network_bytes_in", "network_bytes_out"):
            check(before[name] <= after[name], (name, before, after))


def test_resources_of_a_short_session(server):
    s = server.create()["id"]
    equal(resources(server, s), {"resolution_ms": 5000, "points": []})
    server.run(s, "head -c 20M /dev/zero > held")
    server.delete(s)
    server.reaches(s, "ended")
    (last,) = resources(server, s)["points"]
    check(last["memory_max_bytes"] >= 20 << 20, last)
    check(last["cpu_ms"] == server.get(s)["usage"]["cpu_ms"], (last, server.get(s)["usage"]))


def timeline(server, session, query="", **more):
    return server.want(200, "GET", f"/v1/sessions/{session}/timeline{query}", **more)


def pages(server, session, limit, types=""):
    """All entries, page by page."""
    after, found = "0", []
    while after is not None:
        page = timeline(server, session, f"?limit={limit}&after={after}&types={types}")
        check(len(page["entries"]) <= limit, "a page beyond its limit")
        found, after = found + page["entries"], page["next"]
    return found


def in_order(entries):
    for before, after in zip(entries, entries[1:]):
        check(before["time"] <= after["time"], f"{before} before {after}")
    cursors = [e["cursor"] for e in entries]
    equal(len(set(cursors)), len(cursors), "different cursors")


def work(server):
    """A session with a few things of each kind, ended."""
    s = server.create()["id"]
    done = server.run(s, "echo one; exit 3", record="text")
    server.want(201, "PUT", f"/v1/sessions/{s}/files?path=a%1b%5d0;x%07%e2%80%aeb", b"x")
    server.want(204, "DELETE", f"/v1/sessions/{s}/files?path=a%1b%5d0;x%07%e2%80%aeb")
    server.run(s, "python3 -c 'import urllib.request as u; u.urlopen(\"http://x.example.org/\")'")
    server.run(s, "sleep 60", timeout="100ms")
    server.delete(s)
    server.reaches(s, "ended")
    wait_for(lambda: any(e["kind"] == "network" for e in timeline(server, s)["entries"]), 20, "the refusal")
    return s, done["id"]


def test_everything_in_order(server):
    s, first = work(server)
    all_ = timeline(server, s)["entries"]
    in_order(all_)
    equal({e["kind"] for e in all_}, {"session", "execution", "file", "dns", "network", "resource"})
    mine = [e for e in all_ if e["execution_id"] == first]
    equal([e["type"] for e in mine], ["execution.started", "execution.ended"])
    equal([e["title"] for e in mine], ["$ echo one; exit 3", "exited with 3"])
    check(mine[1]["duration_ms"] is not None, mine)
    (ended,) = [e for e in all_ if e["title"].endswith("limit timeout")]
    equal(ended["severity"], "warning")
    (refused,) = [e for e in all_ if e["kind"] == "network"]
    has(refused["title"], "refused: GET http://x.example.org:80/ 403: x.example.org:80 is not allowed")
    equal((refused["severity"], refused["data"]["verdict"]), ("warning", "deny"))
    check(refused["execution_id"] is not None, refused)
    # what a cell names is text: nothing in it moves a cursor or turns a line around
    written, removed = [e for e in all_ if e["kind"] == "file"]
    equal(written["title"], "written a\\x1b]0;x\\x07\\u202eb")
    equal((written["data"]["path"], removed["data"]["op"]), ("a\x1b]0;x\x07\u202eb", "removed"))
    # the references lead to the rows
    (row,) = [r for r in server.want(200, "GET", f"/v1/sessions/{s}/network/log")["records"] if r["seq"] == refused["ref"]["seq"]]
    equal((refused["ref"]["list"], row["kind"]), ("network", "request"))
    (row,) = [r for r in server.want(200, "GET", f"/v1/sessions/{s}/events")["events"] if r["seq"] == written["ref"]["seq"]]
    equal((written["ref"]["list"], row["type"]), ("events", "file.changed"))
    equal([e["data"] for e in all_ if e["kind"] == "resource"], resources(server, s)["points"])
    for limit in (1, 2, 7):
        equal(pages(server, s, limit), all_, f"pages of {limit}")
    for kind in ("session", "execution", "network,dns", "resource"):
        equal([(e["time"], e["title"]) for e in pages(server, s, 2, kind)],
              [(e["time"], e["title"]) for e in all_ if e["kind"] in kind.split(",")], kind)
    equal(timeline(server, s, "?types=approval"), {"entries": [], "next": None})


def test_refused_requests(server):
    s = server.create()["id"]
    path = f"/v1/sessions/{s}/timeline"
    for query in ("after=1", "after=x", "after=1-1.2", "after=1-1.2.3.4", "after=1-01.2.3", "after=1-8000000000000000.0.0",
                  "after=1-1.2.3%20", "types=nothing", "types=session,,x", "types=" + 20 * "session,", "limit=0", "limit=1001", "x=1", "follow=2"):
        server.refused(400, "invalid", "GET", f"{path}?{query}")
    _, key = server.tenant("timeline")
    server.refused(404, "not_found", "GET", path, key=key)
    server.refused(404, "not_found", "GET", f"{path}?follow=true&after=0", key=key)
    server.delete(s)
    server.reaches(s, "ended")
    check(timeline(server, s)["entries"], "nothing of an ended session")
    server.refused(404, "not_found", "GET", path, key=key)
    server.refused(404, "not_found", "GET", "/v1/sessions/iaaaaaaaaaaaaaaaaaaaa/timeline")


def test_late_records_are_not_missed(server):
    """A record that comes with an earlier time (a long download, a clock that was set back) is behind no cursor."""
    s, _ = work(server)
    seen = timeline(server, s)["entries"]
    rows.copies(server, "net", "seq", 3, f"session = '{s}' AND kind = 'request'", time_ms="time_ms - 3600000 - i")
    # written behind the server's back: a transaction that it has open does not see them yet
    late = wait_for(lambda: timeline(server, s, f"?after={seen[-1]['cursor']}")["entries"], 20, "the late records")
    equal([e["kind"] for e in late], ["network"] * 3)
    equal(len(pages(server, s, 5)), len(seen) + 3)


def test_ten_thousand_records(server):
    """They are read in pieces between which others are served, and each is there once."""
    s, _ = work(server)
    few = timeline(server, s)["entries"]
    end = rows.number(server, "SELECT max(time_ms) FROM event WHERE session = ?", s)
    rows.copies(server, "net", "seq", 6000, f"session = '{s}' AND kind = 'request'", time_ms=f"{end} + 5 * i")
    rows.copies(server, "event", "seq", 4000, f"session = '{s}' AND type = 'file.changed' AND data LIKE 'op\twritten%'", time_ms=f"{end} + 7 * i")
    begin, before = time.monotonic(), turns(server)
    all_ = pages(server, s, 1000)
    spent = time.monotonic() - begin
    equal(len(all_), len(few) + 10000)
    in_order(all_)
    for kind, n in (("events", 4000), ("network", 6000)):
        numbers = [e["ref"]["seq"] for e in all_ if e["ref"]["list"] == kind]
        equal(len(set(numbers)), len(numbers), kind)
        check(len(numbers) >= n, kind)
    long = share(before, turns(server), 0.06) * 5 / spent
    check(long < 0.5, f"{long:.0%} of {spent:.1f} s in long turns")
    # filters look at rows, not only at what they show: a page may be empty and go on
    equal([e["title"] for e in pages(server, s, 1000, "execution")], [e["title"] for e in few if e["kind"] == "execution"])


class Follower:
    """Reads a stream to its break, then continues after the last entry."""

    def __init__(self, server, session):
        self.server, self.path, self.found, self.last = server, f"/v1/sessions/{session}/timeline?follow=true", [], None
        self.stream = self.open()

    def open(self):
        if self.last is None:
            return Events(self.server, self.path, after="0")
        return Events(self.server, self.path, last_event_id=self.last)

    def until(self, done):
        while not any(done(e) for e in self.found):
            try:
                event = self.stream.next()
            except (Ended, ConnectionError):
                self.stream.close()
                self.server.wait_ready()
                self.stream = self.open()
                continue
            equal((event.name, event.id), (event.data["kind"], event.data["cursor"]))
            self.found.append(event.data)
            self.last = event.id
        return self.found


def test_a_restart_in_the_middle(server):
    """Nothing is missed and nothing comes twice when cordond is killed under a follower; points are kept."""
    s = server.create()["id"]
    f = Follower(server, s)
    server.run(s, "echo before", record="text")
    x = server.spawn(s, "i=0; while true; do echo $i; i=$((i + 1)); sleep 0.1; done")
    f.until(lambda e: e["kind"] == "output")
    f.until(lambda e: e["kind"] == "resource")
    one = resources(server, s)["points"]
    check(one[0]["pids"] >= 1 and one[0]["memory_bytes"] > 0 and one[0]["span_ms"] <= 10000, one)
    server.kill("cordond")
    server.wait_ready()
    equal(resources(server, s)["points"][: len(one)], one, "after a kill")
    server.run(s, "echo after", record="text")
    f.until(lambda e: e["title"] == "$ echo after")
    # a mark of output says where it begins
    marks = [e for e in f.found if e["kind"] == "output"]
    equal(marks[0]["data"]["after"], "0")
    wait_for(lambda: server.execution(x)["stdout_bytes"] > 0, 10, "output")
    server.delete(s)
    server.reaches(s, "ended")
    f.until(lambda e: e["type"] == "session.state" and e["data"]["to"] == "ended")
    f.until(lambda e: e["kind"] == "resource" and e["data"]["pids"] == 0)
    f.stream.close()
    key = lambda e: (e["ref"]["list"], e["ref"]["seq"])  # noqa: E731
    equal(sorted(map(key, f.found)), sorted(map(key, pages(server, s, 100))), "the same as the list")
    last = resources(server, s)
    equal(last["points"][: len(one)], one, "after its end")
    grow(last["points"])
    check(last["points"][-1]["cpu_ms"] > one[0]["cpu_ms"], last)
    everything = timeline(server, s)
    server.restart()
    equal((resources(server, s), timeline(server, s)), (last, everything), "after a restart")
    equal(rows.number(server, "SELECT count(*) FROM sample WHERE session = ?", s), len(last["points"]))


def cast(server, x):
    """The recording of an execution, as a strict player reads it: (head, events)."""
    status, headers, body = server.request("GET", f"/v1/sessions/{x['session_id']}/executions/{x['id']}/cast", raw=True)
    equal((status, headers["content-type"]), (200, "application/x-asciicast"))
    return strict(body)


def strict(body):
    check(body.endswith(b"\n"), body[-20:])
    head, *events = [json.loads(line, parse_constant=Failed) for line in body.decode("utf-8").splitlines()]
    equal(head["version"], 2)
    for name in ("width", "height", "timestamp"):
        check(type(head[name]) is int and head[name] > 0, head)
    last = 0.0
    for event in events:
        check(type(event) is list and len(event) == 3, event)
        at, kind, data = event
        check(type(at) is float and at >= last and type(data) is str and kind in ("o", "i", "r", "m"), event)
        check(kind != "r" or re.fullmatch(r"\d+x\d+", data), event)
        last = at
    return head, events


def shown(events, kind="o"):
    return "".join(data for _, what, data in events if what == kind)


def asciinema(body):
    """What the real program prints of it, on a terminal of its own; None if it is not installed."""
    if shutil.which("asciinema") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "x.cast"), "wb") as f:
            f.write(body)
        env = {**os.environ, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "ASCIINEMA_CONFIG_HOME": folder}
        subprocess.run(["script", "-qec", f"asciinema cat {folder}/x.cast > {folder}/shown", "/dev/null"], env=env, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, check=True, timeout=60)
        with open(os.path.join(folder, "shown"), "rb") as f:
            return f.read().decode()


def typed(server, x, *words):
    """A terminal: types words, waits for each to come back."""
    with Attached(server, f"/v1/sessions/{x['session_id']}/executions/{x['id']}/attach") as ws:
        for word in words:
            if isinstance(word, dict):
                ws.say(**word)
            else:
                ws.send(word.encode())
                wait_for(lambda: word.strip() in shown(cast(server, x)[1]), 20, f"echo of {word!r}")
    server.ended(x)


def test_recordings_of_terminals(server):
    s = server.create()["id"]
    sized = {"rows": 30, "cols": 100}
    x = server.spawn(s, "read one; read two; stty size; printf 'ä€😀\\377\\033[1mbold\\033[0m\\n'", tty=sized, record="text")
    typed(server, x, "first\n", {"type": "resize", "rows": 50, "cols": 132}, "second\n")
    head, events = cast(server, x)
    equal((head["width"], head["height"], head["title"][:9]), (100, 30, "read one;"))
    text = shown(events)
    has(text, "first\r\n")
    has(text, "50 132\r\n")
    has(text, "ä€😀\ufffd\x1b[1mbold\x1b[0m\r\n")
    equal([data for _, kind, data in events if kind == "r"], ["132x50"])
    equal(shown(events, "i"), "", "input was not asked for")
    equal(server.execution(x)["record_input"], False)
    # with input, which a restart does not end
    y = server.spawn(s, "while read -r word; do echo got $word; [ $word != end ] || exit; done", tty=sized, record_input=True)
    equal(server.execution(y)["record_input"], True)
    path = f"/v1/sessions/{s}/executions/{y['id']}/input"
    server.want(200, "POST", path, b"secret\n")
    wait_for(lambda: "got secret" in shown(cast(server, y)[1]), 20, "its answer")
    server.restarted("cordond")
    server.want(200, "POST", path, b"end\n")
    server.ended(y)
    head, events = cast(server, y)
    equal((shown(events, "i"), head["width"]), ("secret\nend\n", 100))
    has(shown(events), "got secret\r\n")
    # notes are no output: readers of it get the same bytes as ever
    raw = server.want(200, "GET", f"/v1/sessions/{s}/executions/{y['id']}/output?stream=stdout", raw=True)
    equal(raw.decode(), shown(events))
    equal(server.execution(y)["stdout_bytes"], len(raw))
    with Events(server, f"/v1/sessions/{s}/executions/{y['id']}/events") as stream:
        equal({e.name for e in stream}, {"start", "stdout", "exit"})
    server.delete(s)
    server.reaches(s, "ended")
    equal(cast(server, y), (head, events), "after its end")
    body = server.want(200, "GET", f"/v1/sessions/{s}/executions/{x['id']}/cast", raw=True)
    played = asciinema(body)
    check(played is None or played == text, f"asciinema shows {played!r}")


def test_recorded_input_is_bounded(server):
    s = server.create()["id"]
    for n, kept in ((4096, 4096), (4097, 4096), (1, 1)):
        x = server.spawn(s, "cat > /dev/null; echo", stdin_stream=True, record_input=True)
        server.want(200, "POST", f"/v1/sessions/{s}/executions/{x['id']}/input?eof=true", b"x" * n)
        server.ended(x)
        equal(shown(cast(server, x)[1], "i"), "x" * kept)
    # what was recorded has the limit of output for itself
    x = server.run(s, "cat > /dev/null; head -c 10 /dev/zero | tr '\\0' o", stdin="i" * 100, record_input=True, output_limit=50)
    equal((shown(cast(server, x)[1]), shown(cast(server, x)[1], "i"), x["limits_hit"]), ("o" * 10, "", []))
    # a value that the session was given is covered
    server.want(201, "POST", "/v1/secrets", {"name": "typed", "value": "correct horse battery"})
    t = server.create(secrets=[{"name": "typed", "as": "env", "env": "TYPED"}])["id"]
    x = server.run(t, "cat > /dev/null", stdin="a correct horse battery b", record_input=True)
    equal(shown(cast(server, x)[1], "i"), "a ********************* b")
    for session in (s, t):
        server.delete(session)


def test_long_names_are_cut(server):
    s = server.create()["id"]
    folder = "/".join(["é" * 120] * 4)
    for path in ("f" * 250, f"/tmp/{folder}"):
        server.want(201, "POST", f"/v1/sessions/{s}/files/mkdir", {"path": path, "parents": True})
    short, long = [e for e in timeline(server, s)["entries"] if e["kind"] == "file"]
    equal((short["title"], short["data"]["path"]), ("made " + "f" * 250, "f" * 250))
    check(300 < len(long["title"].encode()) <= 319 and long["title"].startswith("made /tmp/é") and long["title"].endswith("é..."), long["title"])
    check(760 <= len(long["data"]["path"].encode()) <= 767 and f"/tmp/{folder}".startswith(long["data"]["path"]), long["data"])
    server.delete(s)


def test_recordings_of_programs(server):
    """Both streams, lines as on a terminal; and those that were cut, that said nothing, or that nobody may see."""
    s = server.create()["id"]
    x = server.run(s, "echo out; sleep 0.3; echo err >&2; sleep 0.3; printf 'a\\r\\nb'", output_limit=1000)
    head, events = cast(server, x)
    equal((shown(events), head["width"], head["height"]), ("out\r\nerr\r\na\r\nb", 80, 24))
    check(events[-1][0] >= 0.6, events)
    x = server.run(s, "yes | head -c 5000", output_limit=1000)
    _, events = cast(server, x)
    equal((shown(events), shown(events, "m")), ("y\r\n" * 500, "output cut: limit"))
    equal(cast(server, server.run(s, "true"))[1], [])
    # a record for each byte: read in pieces
    x = server.run(s, "python3 -c 'import os,time\nfor i in range(3000): os.write(1, b\"%d\" % (i % 10)); i % 10 or time.sleep(0.0005)'")
    equal(shown(cast(server, x)[1]), "0123456789" * 300)
    path = f"/v1/sessions/{s}/executions/{x['id']}/cast"
    _, key = server.tenant("cast")
    server.refused(404, "not_found", "GET", path, key=key)
    server.refused(404, "not_found", "GET", f"/v1/sessions/{s}/executions/exe_aaaaaaaaaaaaaaaa/cast")
    server.refused(400, "invalid", "GET", path + "?x=1")
    server.refused(400, "invalid", "POST", f"/v1/sessions/{s}/executions", {"code": "1", "record_input": True}, "record_input")
    equal(server.request("HEAD", path)[0], 200)
    server.delete(s)


def cordon(server, *args):
    env = {**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key, "TERM": "dumb"}
    p = subprocess.run([server.program, *args], env=env, capture_output=True, timeout=120)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def test_the_command_line(server):
    s, first = work(server)
    code, text, _ = cordon(server, "timeline", s)
    lines = text.splitlines()
    entries = timeline(server, s)["entries"]
    equal((code, len(lines)), (0, len(entries)))
    has(text, f"info    execution {first} $ echo one; exit 3\n")
    has(text, "file      - written a\\x1b]0;x\\x07\\u202eb\n")
    check("\x1b" not in text and "\u202e" not in text, "control characters")
    code, text, _ = cordon(server, "timeline", "--json", "--types", "network", s)
    equal([json.loads(line)["kind"] for line in text.splitlines()], ["network"])
    code, text, why = cordon(server, "timeline", "--types", "x", s)
    check(code != 0, why)
    has(why, "types: 'x' is not one of")
    code, text, _ = cordon(server, "cast", s, first)
    head, events = strict(text.encode())
    equal((code, shown(events)), (0, "one\r\n"))
    code, text, why = cordon(server, "replay", "--speed", "1000", s)
    equal((code, why), (0, ""))
    parts = ("session: session.created ", "execution: $ echo one; exit 3\n", "\none\r\n", "exited with 3\n", "file: written ",
             "network: refused: GET http://x.example.org", "limit timeout\n", "ending to ended: deleted\n")
    for part in parts:
        has(text, part)
    at = [text.index(part) for part in parts]
    equal(at, sorted(at), text)
    check("\u202e" not in text, text)
    equal(cordon(server, "replay", "iaaaaaaaaaaaaaaaaaaaa")[0], 3)


def test_resources_of_others(server):
    _, key = server.tenant("resources")
    s = server.create()["id"]
    server.refused(404, "not_found", "GET", f"/v1/sessions/{s}/resources", key=key)
    server.refused(404, "not_found", "GET", "/v1/sessions/iaaaaaaaaaaaaaaaaaaaa/resources")
    server.delete(s)


if __name__ == "__main__":
    run_tests(globals(), pool_size=0)

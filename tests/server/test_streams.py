#!/usr/bin/python3
"""test_streams.py - output as it comes and afterwards: nothing missed, nothing twice, nobody held up."""
import hashlib
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has, rss, run_tests, short, wait_for  # noqa: E402
from checks import PATIENCE  # noqa: E402
from streams import Attached, Events  # noqa: E402

MIB = 1 << 20
# Its output can be computed on both sides, and a byte out of place shows.
NUMBERS = "import sys\nfor i in range(%d): sys.stdout.write('%%08d\\n' %% i)"


def numbers(n):
    return "".join("%08d\n" % i for i in range(n)).encode()


def path(x, what="events"):
    return f"/v1/sessions/{x['session_id']}/executions/{x['id']}/{what}"


def collect(events):
    """(start, stdout, stderr, cuts, exit) of a stream, with its offsets checked."""
    streams, seen = {"stdout": bytearray(), "stderr": bytearray()}, {"start": [], "cut": [], "exit": []}
    for event in events:
        if event.name in streams:
            equal(event.data["offset"], len(streams[event.name]), f"offset in {event.name}")
            streams[event.name] += event.output
        else:
            seen[event.name].append(event.data)
        check(event.id, f"an event without id: {event}")
    return seen["start"], bytes(streams["stdout"]), bytes(streams["stderr"]), seen["cut"], seen["exit"]


def test_events_live(server):
    s = server.create()["id"]
    x = server.spawn(s, "echo one; sleep 0.3; echo two >&2; sleep 0.3; printf 'three ☃'; exit 5")
    begun, when = time.monotonic(), {}
    with Events(server, path(x)) as events:
        got = []
        for event in events:
            when[event.name] = time.monotonic() - begun
            got.append(event)
    names = [e.name for e in got]
    equal(names, ["start", "stdout", "stderr", "stdout", "exit"])
    check(got[0].data["pid"] > 1, got[0])
    equal([e.data.get("text") for e in got[1:4]], ["one\n", "two\n", "three ☃"])
    equal([e.data["offset"] for e in got[1:4]], [0, 0, 4])
    equal((got[4].data["execution"]["exit_code"], got[4].data["execution"]["id"]), (5, x["id"]))
    check(when["exit"] - when["stderr"] > 0.15 and when["stderr"] < when["stdout"], f"not live: {when}")
    with Events(server, path(x)) as events:
        again = list(events)
    equal([(e.name, e.id) for e in again if e.name != "start"], [(e.name, e.id) for e in got if e.name != "start"], "afterwards")


def test_resume_at_every_event(server):
    s = server.create()["id"]
    line = "for i in 1 2 3 4 5 6; do echo out$i; sleep 0.01; echo err$i >&2; sleep 0.01; done"
    x = server.ended(server.spawn(s, line))
    with Events(server, path(x)) as events:
        whole = list(events)
    for i, event in enumerate(whole):
        for how in ({"after": event.id}, {"last_event_id": event.id}):
            with Events(server, path(x), **how) as events:
                rest = list(events)
            # Who has seen the end is told again that it was the end.
            want = whole[i + 1 :] or whole[-1:]
            equal([repr(e) for e in rest if e.name != "start"], [repr(e) for e in want if e.name != "start"], f"after {event}")
    for bad in ("x", "-1", "1" * 40, "%00"):
        server.refused(400, "invalid", "GET", path(x) + f"?after={bad}")


def test_reconnecting_while_it_writes(server):
    s = server.create()["id"]
    code = "import sys, time\nfor i in range(3000):\n    sys.stdout.write('%08d\\n' % i)\n    if i % 100 == 0: sys.stdout.flush(); time.sleep(0.01)"
    x = server.spawn(s, ["/usr/bin/python3", "-c", code])
    got, cursor, links = b"", None, 0
    while True:
        links += 1
        with Events(server, path(x), after=cursor) as events:
            for n, event in enumerate(events):
                if event.name == "stdout":
                    equal(event.data["offset"], len(got), "offset")
                    got += event.output
                cursor = event.id
                if event.name == "exit" or n == 2:
                    break
        if event.name == "exit":
            break
    check(links > 3, f"only {links} connections")
    check(got == numbers(3000), f"{len(got)} bytes, not all in order")


def test_big_output_by_events(server):
    s = server.create()["id"]
    x = server.spawn(s, ["/usr/bin/python3", "-c", NUMBERS % 1000000])
    with Events(server, path(x), timeout=60) as events:
        _, out, _, cuts, ends = collect(events)
    check(hashlib.sha256(out).digest() == hashlib.sha256(numbers(1000000)).digest(), f"{len(out)} bytes, not these")
    equal((cuts, ends[0]["execution"]["stdout_bytes"]), ([], 9000000))


def test_100_mib(server):
    s = server.create(limits={"memory": "512M"})["id"]
    line = "openssl enc -aes-128-ctr -K 00112233445566778899aabbccddeeff -iv 0 -in /dev/zero 2>/dev/null | head -c 104857600 > f"
    line += "; sha256sum f >&2; cat f"
    begun = time.monotonic()
    x = server.run(s, line, output_limit="200M")
    equal((x["exit_code"], x["stdout_bytes"], x["output_truncated"]), (0, 100 * MIB, False), short(x["stderr"]))
    data = server.want(200, "GET", path(x, "output?stream=stdout"))
    equal(hashlib.sha256(data).hexdigest(), x["stderr"].split()[0], "sum")
    for first, size in ((0, 10), (12345678, 100000), (100 * MIB - 7, 100), (100 * MIB, 5)):
        status, headers, part = server.request("GET", path(x, f"output?stream=stdout&offset={first}&length={size}"))
        equal((status, part), (200, data[first : first + size]), f"range {first}+{size}")
        equal((headers["x-cordon-offset"], headers["x-cordon-total"]), (str(first), str(100 * MIB)))
    check(time.monotonic() - begun < 30 * PATIENCE, "slow")


def test_binary(server):
    s = server.create()["id"]
    x = server.run(s, ["/usr/bin/python3", "-c", "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)"])
    with Events(server, path(x)) as events:
        _, out, _, _, _ = collect(events)
    check(out == bytes(range(256)) * 1000, f"{len(out)} other bytes")
    snow = "☃" * 50000
    x = server.run(s, ["/usr/bin/python3", "-c", f"import sys; sys.stdout.buffer.write('☃'.encode() * 50000)"])
    with Events(server, path(x)) as events:
        got = [e for e in events if e.name == "stdout"]
    check(all("text" in e.data for e in got), "a character was split")
    equal("".join(e.data["text"] for e in got), snow)


def test_both_and_ranges(server):
    s = server.create()["id"]
    x = server.run(s, "for i in 1 2 3; do echo out$i; sleep 0.02; echo err$i >&2; sleep 0.02; done")
    equal(server.want(200, "GET", path(x, "output?stream=both")), b"out1\nerr1\nout2\nerr2\nout3\nerr3\n", "in order")
    equal(server.want(200, "GET", path(x, "output?stream=stderr")), b"err1\nerr2\nerr3\n")
    equal(server.want(200, "GET", path(x, "output?stream=stdout&offset=5&length=5")), b"out2\n")
    status, headers, body = server.request("HEAD", path(x, "output?stream=stdout"))
    equal((status, headers["x-cordon-total"], body), (200, "15", b""))
    for bad in ("stream=stdin", "offset=-1", "offset=x", "length=x", "colour=red"):
        server.refused(400, "invalid", "GET", path(x, f"output?{bad}"))


def test_cut_is_marked(server):
    s = server.create()["id"]
    x = server.run(s, "yes | head -c 100000; sleep 0.1; echo late >&2", output_limit="10000")
    with Events(server, path(x)) as events:
        _, out, err, cuts, ends = collect(events)
    equal((len(out), err, len(cuts)), (10000, b"", 1))
    equal(cuts[0]["reason"], "limit")
    equal(ends[0]["execution"]["output_truncated"], True)


def test_attach_both_ways(server):
    s = server.create()["id"]
    x = server.spawn(s, "while read l; do echo got $l; echo err $l >&2; done; echo bye; exit 4", stdin_stream=True)
    with Attached(server, path(x, "attach")) as ws:
        ws.send(b"one\n")
        ws.until_output(b"got one\n")
        ws.until_output(b"err one\n", 2)
        ws.send(b"two\nthr")
        ws.send(b"ee\n")
        ws.until_output(b"got three\n")
        ws.say(type="eof")
        end = ws.until_end()
    equal(ws.streams[1], b"got one\ngot two\ngot three\nbye\n")
    equal(ws.streams[2], b"err one\nerr two\nerr three\n")
    equal((end["execution"]["exit_code"], ws.said[0]["type"]), (4, "start"))
    equal(ws.code, 1000, "how it closes")


def test_attach_signal_and_nonsense(server):
    s = server.create()["id"]
    x = server.spawn(s, ["sleep", "1000"])
    with Attached(server, path(x, "attach")) as ws:
        for text in (
            b"nonsense", b"{}", b'{"type":"dance"}', b'{"type":"resize","rows":"x"}', b"[" * 10000,
            b'{"type":"eof"}' + b" " * 5000,  # longer than any that makes sense
            b'{"type":"signal"}', b'{"type":"signal","signal":99}', b'{"type":"resize","rows":24,"cols":80}',
        ):  # fmt: skip
            ws.frame(ws.TEXT, text)
            while not ws.said or ws.said[-1]["type"] != "error":
                check(ws.step(), f"{text[:20]}: closed with {ws.code}")
            check(ws.said.pop()["error"]["code"] in ("invalid", "conflict"), f"{text[:20]}: {ws.said}")
        ws.send(b"typed to one that has no input\n")
        while not ws.said or ws.said[-1]["type"] != "error":
            check(ws.step(), "closed")
        ws.say(type="signal", signal="TERM")
        end = ws.until_end()
    equal(end["execution"]["signal"], 15)
    server.refused(400, "invalid", "GET", path(x, "attach"), None, "WebSocket")
    try:
        Attached(server, path({"session_id": s, "id": "exe_aaaaaaaaaaaaaaaa"}, "attach"))
    except AssertionError as e:
        has(str(e), "404")
    else:
        raise AssertionError("attached to nothing")


def test_several_viewers(server):
    s = server.create()["id"]
    x = server.spawn(s, ["/usr/bin/python3", "-c", "import time; time.sleep(0.5)\n" + NUMBERS % 200000])
    got = {}

    def watch(i):
        if i % 2:
            with Attached(server, path(x, "attach")) as ws:
                ws.until_end()
                got[i] = ws.streams[1]
        else:
            with Events(server, path(x)) as events:
                got[i] = collect(events)[1]

    threads = [threading.Thread(target=watch, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    want = numbers(200000)
    for i in range(6):
        check(got.get(i) == want, f"viewer {i} has {len(got.get(i, b''))} bytes")


def test_slow_viewers_cost_little(server):
    """Viewers that do not read: the program ends at its own pace, others see all, memory is bounded."""
    s = server.create(limits={"memory": "512M"})["id"]
    daemon = server.pid("cordond")
    before = rss(daemon)
    x = server.spawn(s, ["/usr/bin/python3", "-c", "import time; time.sleep(0.7)\n" + NUMBERS % 6000000], output_limit="100M")
    slow = [Events(server, path(x), receive_buffer=4096) for _ in range(10)]
    slow += [Attached(server, path(x, "attach"), receive_buffer=4096) for _ in range(10)]
    begun = time.monotonic()
    fast = {}

    def read_all():
        with Attached(server, path(x, "attach"), timeout=60 * PATIENCE) as ws:
            parts = []
            while True:
                kind, data = ws.take()
                if kind == ws.BINARY:
                    parts.append(data[1:])
                elif kind == ws.CLOSE:
                    break
            fast["sum"] = hashlib.sha256(b"".join(parts)).hexdigest()

    reader = threading.Thread(target=read_all)
    reader.start()
    most = 0
    while server.execution(x)["ended_at"] is None:
        most = max(most, rss(daemon))
        check(time.monotonic() - begun < 40 * PATIENCE, "the program is held up by those who do not read")
        begun_one = time.monotonic()
        server.want(200, "GET", "/healthz")
        check(time.monotonic() - begun_one < 5, "others are held up")
        time.sleep(0.05)  # between two looks
    reader.join(60)
    most = max(most, rss(daemon))
    equal(fast.get("sum"), hashlib.sha256(numbers(6000000)).hexdigest(), "what a fast viewer saw")
    check(most - before < 20 * MIB, f"memory grew by {(most - before) >> 10} KiB for 20 viewers of 54 MB")
    # One of the slow ones wakes up and misses nothing.
    late = slow[0]
    late.socket.settimeout(60)
    sum_ = hashlib.sha256()
    for event in late:
        if event.name == "stdout":
            sum_.update(event.output)
    equal(sum_.hexdigest(), fast["sum"], "what a viewer that slept saw")
    for link in slow:
        link.close()
    server.delete(s)


def test_dead_viewers_are_dropped(server):
    s = server.create()["id"]
    x = server.spawn(s, "sleep 1000")
    fds = len(os.listdir(f"/proc/{server.pid('cordond')}/fd"))
    for _ in range(30):
        Events(server, path(x)).close()
        Attached(server, path(x, "attach")).close()
    wait_for(lambda: len(os.listdir(f"/proc/{server.pid('cordond')}/fd")) <= fds + 10, 15, "closing of dead viewers")
    server.delete(s)


def test_deleted_under_a_viewer(server):
    s = server.create()["id"]
    x = server.spawn(s, "echo here; sleep 1000")
    with Events(server, path(x)) as events:
        events.wanted("stdout")
        server.delete(s)
        end = events.wanted("exit")
        equal(end.data["execution"]["state"], "killed")
        equal(events.next(), None)


def test_output_after_the_exit(server):
    """A child that was left behind goes on writing: told after the exit, until nobody can write."""
    s = server.create()["id"]
    x = server.spawn(s, "(sleep 0.6; echo late) & echo early; exit 2")
    with Events(server, path(x)) as events:
        equal(events.wanted("stdout").data["text"], "early\n")
        end = events.next()
        equal((end.name, end.data["execution"]["exit_code"], end.data["execution"]["output_open"]), ("exit", 2, True))
        late = events.next()
        equal((late.name, late.data), ("stdout", {"offset": 6, "text": "late\n"}))
        rest = [e.name for e in events]
        equal(rest, [], "then the stream ends")
    now = server.execution(x)
    equal((now["stdout_bytes"], now["output_open"]), (11, False))


def test_session_events(server):
    s = server.create()["id"]
    server.run(s, "true")
    with Events(server, f"/v1/sessions/{s}/events?follow=true", after=0) as events:
        first = events.next()
        equal((first.name, first.data["session_id"]), ("session.created", s))
        server.delete(s)
        seen = []
        while "ended" not in seen:
            event = events.next()
            check(event, f"the stream ended after {seen}")
            seen.append(event.data["data"].get("to"))
    listed = server.want(200, "GET", f"/v1/sessions/{s}/events")["events"]
    equal([e["seq"] for e in listed], sorted(e["seq"] for e in listed), "order")
    equal({e["session_id"] for e in listed}, {s})
    after = server.want(200, "GET", f"/v1/sessions/{s}/events?after={listed[0]['seq']}&limit=1")["events"]
    equal(after, listed[1:2])
    mine = server.want(200, "GET", "/v1/events?limit=1000")["events"]
    check(all(e in mine for e in listed), "the tenant's events have those of its session")


if __name__ == "__main__":
    run_tests(globals(), pool_size=2, output_limit_max="1G")

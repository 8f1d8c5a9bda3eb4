#!/usr/bin/python3 -B
"""Goal: cordon-egress talks to hostile bytes on both sides, so one day it is taken over. Then whatever it says
harms nobody but the network of cells: cordond goes on, no record is stored that is none, nobody who
waits for it waits for ever, and no session is said to have a network that has none.

    test_hostile_egress.py CORDON [name ...]

A program that stands in for cordon-egress says what a test has written down for it, for each channel
that it is given.
"""
import json
import os
import shutil
import struct
import tempfile
import time

import harness
from harness import Server, check, equal, has, run_tests, wait_for

KILLS = True  # channels are given up, and programs started again
TAKEN, RECORD, COUNTS = 64, 65, 66

FAKE = r"""#!/usr/bin/python3 -I
import array, json, os, socket, struct, sys, time
here = os.path.dirname(os.path.abspath(sys.argv[0]))
if "--create-ca" in sys.argv:
    os.execv(os.path.join(here, "real-egress"), ["cordon-egress", *sys.argv[1:]])
with open(os.path.join(here, "script.json")) as f:
    script = json.load(f)
control = socket.socket(fileno=3)
channels = []
control.settimeout(0.02)
while True:
    try:
        word, fds, _, _ = socket.recv_fds(control, 1, 4)
        if word == b"":
            sys.exit(0)
        if word == b"C":
            s = socket.socket(fileno=fds[0])
            s.setblocking(False)
            channels.append([s, b""])
            if script.get("hello"):
                s.setblocking(True)
                s.sendall(bytes.fromhex(script["hello"]))
                s.setblocking(False)
    except TimeoutError:
        pass
    for c in channels:
        try:
            if script.get("deaf"):
                continue
            data, fds, _, _ = socket.recv_fds(c[0], 1 << 20, 64)
            for fd in fds:
                os.close(fd)
        except BlockingIOError:
            continue
        c[1] += data
        while len(c[1]) >= 8:
            size, kind, _ = struct.unpack("<IHH", c[1][:8])
            if len(c[1]) < 8 + size:
                break
            ident, c[1] = c[1][8:48], c[1][8 + size:]
            if kind in (1, 2, 6) and script.get("answer") is not None:
                c[0].setblocking(True)
                for what, text in script["answer"]:
                    text = text.encode()
                    c[0].sendall(struct.pack("<IHH", 40 + len(text), what, 0) + ident + text)
                c[0].setblocking(False)
"""


def frame(kind, ident, text, size=None):
    body = ident.encode().ljust(40, b"\0") + text.encode()
    return struct.pack("<IHH", len(body) if size is None else size, kind, 0) + body


class Taken:
    """A server whose egress was taken over."""

    def __init__(self, settings=None, **script):
        self.folder = tempfile.mkdtemp(prefix="cordon-taken-", dir="/var/tmp")
        os.chmod(self.folder, 0o755)
        for name in harness.PROGRAMS:
            shutil.copy(os.path.join(os.path.dirname(harness.PROGRAM), name), self.folder)
        os.rename(os.path.join(self.folder, "cordon-egress"), os.path.join(self.folder, "real-egress"))
        self.say(**script)
        path = os.path.join(self.folder, "cordon-egress")
        with open(path, "w") as f:
            f.write(FAKE)
        os.chmod(path, 0o755)
        self.server = Server(os.path.join(self.folder, "cordon"), pool_size=0, **(settings or {}))

    def say(self, **script):
        path = os.path.join(self.folder, "script.json")
        with open(path, "w") as f:
            json.dump(script, f)
        os.chmod(path, 0o644)

    def __enter__(self):
        return self.server

    def __exit__(self, *_):
        try:
            self.server.close()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def number(server, name):
    text = server.request("GET", "/metrics", raw=True)[2].decode()
    return int(next(line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(name + " ")))


def log_of(server, session):
    return server.want(200, "GET", f"/v1/sessions/{session['id']}/network/log")["records"]


WAITED = {"version": 1, "rules": ["a.example"]}  # its session is made when egress serves it; that of deny before
GOOD = json.dumps({"time_ms": 1, "kind": "dns", "name": "a.example", "verdict": "deny"})


def test_silence():
    with Taken() as server:
        began = time.monotonic()
        status, _, body = server.request("POST", "/v1/sessions", {"network": WAITED})
        equal(status, 503, f"a session whose door nobody takes ({body})")
        check(4 < time.monotonic() - began < 15, f"after {time.monotonic() - began:.1f} s")
        wait_for(lambda: not server.want(200, "GET", "/v1/sessions?state=running,ending")["sessions"], 15, "its end")
        s = server.create()
        equal(server.run(s["id"], "echo hi")["stdout"], "hi\n", "a session without network")
        status, _, _ = server.request("PUT", f"/v1/sessions/{s['id']}/network", "pypi")
        equal(status, 503, "a change that nobody takes")
        check(server.want(200, "GET", f"/v1/sessions/{s['id']}/network")["state"] != "open", "its door is not open")


def test_deaf():
    with Taken(deaf=True) as server:
        s = server.create()
        for _ in range(2):
            equal(server.request("PUT", f"/v1/sessions/{s['id']}/network", "pypi")[0], 503, "one that does not read")
        equal(server.run(s["id"], "echo hi")["stdout"], "hi\n", "the session goes on")


def test_refusal():
    with Taken(answer=[[TAKEN, "I \x1b[31mdo not\n want to"]]) as server:
        status, _, body = server.request("POST", "/v1/sessions", {"network": WAITED})
        equal(status, 500, f"{body}")
        has(body["error"]["message"], "cordon-egress refused the policy", "message")
        check("\x1b" not in body["error"]["message"] and "\n" not in body["error"]["message"], "control characters")


def test_records_and_counts():
    counts = json.dumps({"bytes_in": 10, "bytes_out": 20, "requests": 3, "connections": 1})
    with Taken(answer=[[RECORD, GOOD], [COUNTS, counts], [TAKEN, ""], [TAKEN, ""], [TAKEN, "late"]]) as server:
        s = server.create(network=WAITED)
        records = log_of(server, s)
        equal([(r["name"], r["verdict"]) for r in records], [("a.example", "deny")], "records")
        wait_for(lambda: server.get(s["id"])["usage"]["network"] == {"bytes_in": 10, "bytes_out": 20, "requests": 3}, 15, "usage")
        equal(server.want(200, "GET", f"/v1/sessions/{s['id']}/network")["state"], "open", "answers to nothing do not count")
        server.want(200, "PUT", f"/v1/sessions/{s['id']}/network", "pypi")
        equal(server.get(s["id"])["usage"]["network"]["bytes_in"], 10, "the same totals again are nothing new")


INVALID = [
    [RECORD, "{"],
    [RECORD, "[1]"],
    [RECORD, '{"time_ms":1,"verdict":"deny"}'],
    [RECORD, GOOD.replace("time_ms", "*******")],
    [COUNTS, "{}"],
]


def test_invalid_records():
    """A record or a count that cannot be read is dropped and counted. The channel stays, for all sessions."""
    with Taken(answer=[*INVALID, [RECORD, GOOD], [TAKEN, ""]]) as server:
        s = server.create(network=WAITED)
        equal([r["name"] for r in log_of(server, s)], ["a.example"], "the valid record is stored")
        equal(number(server, "cordon_egress_invalid_total"), len(INVALID), "invalid ones are counted")
        equal(number(server, "cordon_egress_broken_total"), 0, "the channel stays")
        server.want(200, "PUT", f"/v1/sessions/{s['id']}/network", "pypi")


def test_uses_of_secrets():
    """Each secret and host has one record, names that are none have no record, and more than so many are counted."""
    def said(host, names, **more):
        return [RECORD, json.dumps({**json.loads(GOOD), "name": host, "secrets": names, **more})]

    first = [said("a.example", "one,two"), said("a.example", "two,one"), said("a.example", "x y,,.z,one"), said("b.example", "one", lost_before=7)]
    many = [said(f"h{i}.example", "one") for i in range(100)]
    with Taken(answer=[*first, *many, [TAKEN, ""]]) as server:
        s = server.create(network=WAITED)
        uses = server.want(200, "GET", f"/v1/audit?session={s['id']}&type=secret.used&limit=1000")["records"]
        got = [tuple(u["record"]["data"][k] for k in ("name", "as", "host", "unrecorded")) for u in uses]
        equal(got[:4], [("one", "broker", "a.example", 0), ("two", "broker", "a.example", 0), ("one", "broker", "b.example", 0),
                        ("one", "broker", "h0.example", 0)])
        equal(len(got), 64, "records of one hour")
        server.delete(s["id"])
        server.reaches(s["id"], "ended")
        batch = server.want(200, "GET", f"/v1/audit?session={s['id']}&type=network.batch")["records"][-1]["record"]["data"]
        equal((batch["records"], batch["lost_before"]), (len(first) + len(many), 7))


NONSENSE = {
    "an order": [3, ""],
    "no type": [99, ""],
}


def test_nonsense():
    for what, (kind, text) in NONSENSE.items():
        with Taken(answer=[[kind, text], [TAKEN, ""]]) as server:
            status, _, body = server.request("POST", "/v1/sessions", {"network": WAITED})
            check(status in (500, 503), f"{what}: {status} {body}")
            check(number(server, "cordon_egress_broken_total") >= 1, f"{what}: the channel is given up")
            s = server.create()
            equal(server.run(s["id"], "echo hi")["stdout"], "hi\n", f"{what}: the daemon goes on")


def replaced(taken, broken, what):
    """The supervisor starts another egress, which opens doors: without a restart of the server."""
    server = taken.server
    taken.say(answer=[[TAKEN, ""]])
    wait_for(lambda: number(server, "cordon_egress_broken_total") > broken, 20, f"{what}: the end of the channel")
    wait_for(lambda: number(server, "cordon_egress_up") == 1, 20, f"{what}: another channel")
    wait_for(lambda: server.request("POST", "/v1/sessions", {"network": WAITED})[0] == 201, 30,
             f"{what}: a session with a network")


def test_replaced_after_broken_frame():
    taken = Taken(hello=struct.pack("<IHH", 0xFFFFFFFF, RECORD, 0).hex())
    with taken:
        replaced(taken, 0, "a frame that is too long")


def test_replaced_after_nonsense():
    taken = Taken(answer=[[99, ""]])
    with taken as server:
        check(server.request("POST", "/v1/sessions", {"network": WAITED})[0] in (500, 503), "no session")
        replaced(taken, 0, "a message of no type")


def test_broken_frames():
    for what, said in {
        "a huge frame": struct.pack("<IHH", 0xFFFFFFFF, RECORD, 0),
        "no id": struct.pack("<IHH", 0, RECORD, 0),
        "an id that is none": frame(RECORD, "../../etc", GOOD),
        "NUL in a text": frame(RECORD, "i0", "{\0}"),
        "a head that is none": struct.pack("<IHH", 40, RECORD, 7) + b"a" * 40,
    }.items():
        with Taken(hello=said.hex()) as server:
            wait_for(lambda: number(server, "cordon_egress_broken_total") >= 1, 10, f"{what}: the end of the channel")
            s = server.create()
            equal(server.run(s["id"], "echo hi")["stdout"], "hi\n", f"{what}: the daemon goes on")


def test_of_others():
    """Records of sessions that are not there are dropped, and harm no channel."""
    said = b"".join(frame(kind, "i000000000000000", text) for kind, text in ((RECORD, GOOD), (TAKEN, ""), (COUNTS, "x")))
    with Taken(hello=(said * 300).hex(), answer=[[TAKEN, ""]]) as server:
        s = server.create(network=WAITED)
        equal(log_of(server, s), [], "records of others")
        equal(number(server, "cordon_egress_broken_total"), 0, "the channel")


if __name__ == "__main__":
    run_tests(globals(), pool_size=0)

#!/usr/bin/python3 -B
"""Goal: the package cache of a server. What a cell gets from it is whole and has the digest that the registry's index names,
whoever wrote the folder; kills of cordon-cache, cordon-egress and cordond during downloads leave nothing wrong, half or
behind, and the cache is used again by itself.

    test_cache.py CORDON [name ...]

A whole server, cells, and fake registries in the small internet of tests/egress."""
import contextlib
import hashlib
import os
import random
import signal
import time

import registry_answer as faults
from attack_tools import R, asks, internet, npm, recorded, session
from cache_channel import files_of, sha256
from checks import check, equal, note, wait_for

KILLS = True  # tests here kill programs of the server
DICE = random.Random(16)
MADE = []
READY_S = 15


def package(pad=100000):
    """A package that nobody has asked for: its path and its bytes."""
    MADE.append(R.add("npm", f"cached-{len(MADE)}", "1.0.0", age="400d", pad=pad))
    p = R.packages[-1]
    return R.path("npm", p.name, "1.0.0"), R.parts["npm"].data(p).decode("latin-1")


def kept(server):
    """How many views there are, by the files of the folder."""
    return len([name for name in files_of(f"{server.state}/packages") if name.startswith("views/")])


def stored(server, s, pad=100000):
    """A package that is in the cache."""
    path, data = package(pad)
    reply = npm(server, s, path)
    check(reply.whole and reply.body == data, f"{path}: {reply.status} {reply.end}")
    wait_for(lambda: not [n for n in files_of(f"{server.state}/packages") if n.startswith("tmp/")], 10, "nothing is being written")
    wait_for(lambda: object_of(server, data) is not None, 10, "the object")
    return path, data


def object_of(server, data):
    digest = sha256(data.encode("latin-1"))
    at = f"{server.state}/packages/objects/{digest[:2]}/{digest[2:]}"
    return at if os.path.exists(at) else None


def view_of(server, data):
    """The file of the view that names these bytes."""
    digest = hashlib.sha256(data.encode("latin-1")).digest()
    for name in files_of(f"{server.state}/packages"):
        if name.startswith("views/"):
            at = f"{server.state}/packages/{name}"
            with open(at, "rb") as f:
                if digest in f.read():
                    return at
    return None


def test_served_again(server):
    s = session(server)
    path, data = stored(server, s, pad=150000)
    R.forget()
    for who in (s, session(server)):
        reply = npm(server, who, path)
        check(reply.whole and reply.body == data, f"{reply.status} {reply.end}")
        for name in ("age", "x-cache", "via", "date"):
            check(name not in reply.headers, f"{name} tells of the cache: {reply.headers}")
    equal(R.count(path), 0, "requests to the registry")
    recorded(server, s, name=path.split("/")[1], result="downloaded")


def test_parts_and_validators(server):
    s = session(server)
    path, data = stored(server, s, pad=40000)
    size = len(data)
    R.forget()
    etag = npm(server, s, path).headers["etag"]
    wanted = {"bytes=0-9": (206, data[:10]), "bytes=5-": (206, data[5:]), "bytes=-7": (206, data[-7:]),
              f"bytes={size - 3}-{size + 50}": (206, data[-3:]), f"bytes={size}-": (416, ""), "bytes=3-2": (200, data),
              "bytes=0-1,5-6": (200, data), "lines=0-1": (200, data)}
    replies = asks(server, s, *({"host": "npm.example", "path": path, "headers": f"Range: {r}\r\n"} for r in wanted))
    for (part, want), reply in zip(wanted.items(), replies):
        equal((reply.status, reply.body == want[1], reply.end), (want[0], True, ""), part)
    equal(replies[0].headers["content-range"], f"bytes 0-9/{size}", "where the part is")
    known, other, ranged, head = asks(
        server, s, {"host": "npm.example", "path": path, "headers": f"If-None-Match: \"x\", {etag}\r\n"},
        {"host": "npm.example", "path": path, "headers": "If-None-Match: \"x\"\r\n"},
        {"host": "npm.example", "path": path, "headers": "Range: bytes=0-4\r\nIf-Range: \"x\"\r\n"},
        {"host": "npm.example", "path": path, "method": "HEAD"})
    equal((known.status, known.body), (304, ""), "a known tag")
    part = session(server)
    equal(npm(server, part, path, headers="Range: bytes=0-9\r\n").status, 206, "in a session that gets no more")
    row = recorded(server, part, file=path.rpartition("/")[2])
    equal((row["result"], row["verified"]), ("passed", False), "a part is no download")
    check(other.whole and other.body == data, "another tag")
    check(ranged.whole and ranged.body == data, "a part of another version")
    equal((head.status, head.body), (200, ""), "HEAD")
    equal(R.count(path, method="GET"), 0, "requests to the registry")


def other_status(_, answer):
    """Clients take every status below 400 for the file."""
    answer = faults.first_byte(_, answer)
    answer.status = 203
    return answer


def test_wrong_files_are_not_kept(server):
    s = session(server)
    for fault in (other_status, faults.last_byte, faults.first_byte, faults.short, faults.cut, faults.long):
        path, data = package()
        R.fault(path, fault)
        try:
            reply = npm(server, s, path)
            check((not 200 <= reply.status < 400 or reply.end) and reply.body != data, f"{fault.__name__}: {reply.status} {reply.end}")
            equal(view_of(server, data), None, f"{fault.__name__}: a view")
        finally:
            R.heal()
        reply = npm(server, s, path)
        check(reply.whole and reply.body == data, f"after {fault.__name__}: {reply.status} {reply.end}")
    wait_for(lambda: not [n for n in files_of(f"{server.state}/packages") if n.startswith("tmp/")], 20, "the end of files that were not whole")


def test_the_end_of_a_wrong_file_is_held_back(server):
    """All of it came from the registry but its last bytes, and was read by the cell: 16 KiB of it were not sent on."""
    s = session(server)
    path, data = package()

    def late(_, answer):
        answer = faults.last_byte(_, answer)
        answer.pace = len(answer.body) - 100, 0.5
        return answer
    R.fault(path, late)
    try:
        reply = npm(server, s, path)
    finally:
        R.heal()
    equal((reply.status, reply.whole), (200, False), "the answer")
    check(0 < len(reply.body) <= len(data) - 16384, f"{len(reply.body)} of {len(data)} bytes")
    check(data.startswith(reply.body), "the bytes before")


def name_another(view, data, other):
    """Writes the view as a cordon-egress that was taken over could have it written: it names another object."""
    with open(view, "rb") as f:
        text = f.read()[:-16]
    mine, its = (hashlib.sha256(x.encode("latin-1")).digest() for x in (data, other))
    check(text.endswith(mine), "the form of a view")
    text = text[:-40] + len(other).to_bytes(8, "little") + its
    os.chmod(view, 0o600)
    with open(view, "wb") as f:
        f.write(text + hashlib.sha256(text).digest()[:16])


def revived(server, name, old):
    wait_for(lambda: server.pid(name) not in (None, old), READY_S, f"another {name}")
    server.wait_ready(READY_S)


def test_a_view_that_names_another_file(server):
    """npm's digests are SHA-512: the name of the object says nothing, its bytes do."""
    s = session(server)
    _, other = stored(server, s)
    for part in ("", "Range: bytes=0-99\r\n"):
        path, data = stored(server, s)
        name_another(view_of(server, data), data, other)
        revived(server, "cordon-cache", server.kill("cordon-cache"))
        reply = wait_for(lambda part=part, path=path: (r := npm(server, s, path, headers=part)) and r.status and r, 10, "an answer")
        check(not reply.whole and reply.end != "" and other[-50:] not in reply.body, f"{part}: {reply.status} {reply.end}")
        check(part == "" or reply.body == "", f"{len(reply.body)} bytes of a part")
        wait_for(lambda path=path, data=data: (r := npm(server, s, path)).whole and r.body == data, 10, "the right one, from the registry")


def test_a_changed_object(server):
    """A file that the disk changed: the cell does not get it whole, and verifying finds it."""
    s = session(server)
    path, data = stored(server, s)
    at = object_of(server, data)
    os.chmod(at, 0o600)
    with open(at, "r+b") as f:
        f.seek(50000)
        f.write(b"changed")
    reply = npm(server, s, path)
    check(not reply.whole and reply.body != data, f"{reply.status} {reply.end}")
    wait_for(lambda: (r := npm(server, s, path)).whole and r.body == data, 10, "the right one")


def aged(server, word):
    """Metadata whose key has this word was fetched an hour ago; nobody remembers it."""
    found = 0
    for name in files_of(f"{server.state}/packages"):
        at = f"{server.state}/packages/{name}"
        if not name.startswith("views/"):
            continue
        with open(at, "rb") as f:
            view = f.read()[:-16]
        if word not in view:
            continue
        size = int.from_bytes(view[-40:-32], "little")
        check(0 < size < 1 << 24, f"the form of a view: a size of {size}")
        view = view[:-48] + (int.from_bytes(view[-48:-40], "little") - 3600000).to_bytes(8, "little") + view[-40:]
        with open(at, "wb") as f:
            f.write(view + hashlib.sha256(view).digest()[:16])
        found += 1
    for name in ("cordon-cache", "cordon-egress"):
        revived(server, name, server.kill(name))
    return found


def test_old_metadata_is_taken_only_from_a_registry_that_cannot_answer(server):
    R.add("npm", "old-page", "1.0.0")
    s = session(server)
    equal(npm(server, s, "/old-page").status, 200, "the page")
    wait_for(lambda: aged(server, b"/old-page") == 1, 20, "the view of the page")
    try:
        for code, want in ((401, 401), (403, 403), (429, 429), (503, 200)):
            R.heal()
            R.fault("/old-page", faults.status(code))
            reply = wait_for(lambda: (r := npm(server, s, "/old-page")).status and r, 10, "an answer")
            equal(reply.status, want, f"the registry answers {code}")
    finally:
        R.heal()
    wait_for(lambda: [r for r in server.want(200, "GET", f"/v1/sessions/{s['id']}/network/log?limit=100")["records"]
                      if r["kind"] == "package" and r["package"]["cache"] == "stale"], 10, "the record of old metadata")


def whole_folder(server, why):
    """Every object has the bytes that its name says, and nothing is left of what was not stored."""
    folder = f"{server.state}/packages"
    names = files_of(folder)
    for name in names:
        if name.startswith("objects/"):
            with open(f"{folder}/{name}", "rb") as f:
                equal(sha256(f.read()), name[8:].replace("/", ""), f"an object {why}")
    equal([n for n in names if not n.startswith(("objects/", "views/")) and n != "seen"], [], f"files left {why}")


def test_used_again_after_kills(server):
    """Each of the three ends; then the next session is served from the cache, without the registry."""
    path, data = stored(server, session(server))
    for name in ("cordon-cache", "cordon-egress", "cordond"):
        revived(server, name, server.kill(name))
        R.forget()

        def again():
            R.forget()
            reply = npm(server, session(server), path)
            check(reply.status == 0 or reply.end or reply.body == data, f"{name}: other bytes")
            return reply.whole and R.count(path) == 0
        wait_for(again, READY_S, f"a hit after {name} was killed", step=0.2)


def test_a_cache_that_hangs(server):
    """Files come from the registry; the first one may wait for an answer, the others do not. It is used again later."""
    s = session(server)
    path, data = stored(server, s)
    others = [package() for _ in range(3)]
    for p, _ in others:
        npm(server, s, "/" + p.split("/")[1])  # its metadata
    took = []
    pid = server.pid("cordon-cache")
    os.kill(pid, signal.SIGSTOP)
    try:
        for p, d in [(path, data), *others]:
            began = time.monotonic()
            reply = npm(server, s, p)
            check(reply.whole and reply.body == d, f"{p}: {reply}")
            took.append(time.monotonic() - began)
        # The first one waits for the whole deadline of the cache.
        check(min(took[1:]) < took[0], f"all wait for the cache: {took}")
    finally:
        with contextlib.suppress(ProcessLookupError):  # cordond may have had it replaced
            os.kill(pid, signal.SIGCONT)

    def hit():
        R.forget()
        return npm(server, s, path).whole and R.count(path) == 0
    wait_for(hit, READY_S, "a hit", step=0.2)


def metric(server, name):
    text = server.request("GET", "/metrics", raw=True)[2].decode()
    return int(next(line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(name + " ")))


def test_metrics(server):
    stored(server, session(server))
    wait_for(lambda: metric(server, "cordon_package_cache_objects") > 0 and metric(server, "cordon_package_cache_bytes") > 100000, 30,
             "what the cache keeps", step=0.2)
    equal(metric(server, "cordon_package_cache_up"), 1, "cordon-cache is there")
    equal(metric(server, "cordon_package_cache_bad"), 0, "damaged files")


LOAD = """
import hashlib, urllib.request, sys, os
for n in range(1000):
    for url, want in FILES:
        try:
            data = urllib.request.urlopen(url, timeout=5).read()
        except Exception:
            continue
        with open('/tmp/count', 'a') as f:
            f.write('.' if hashlib.sha256(data).hexdigest() == want else '!')
"""


def test_killed_during_downloads(server):
    """Downloads of several sessions at a slow pace; programs are killed at random. Whole answers are right ones."""
    files = []
    for _ in range(4):
        path, data = package(pad=600000)
        files.append((f"https://npm.example{path}", hashlib.sha256(data.encode("latin-1")).hexdigest()))

    def slow(_, answer):
        answer.pace = 65536, 0.01
        return answer
    for url, _ in files:
        R.fault(url[len("https://npm.example"):], slow)
    sessions = [session(server) for _ in range(3)]
    for i, s in enumerate(sessions):
        turned = files[i:] + files[:i]
        server.spawn(s["id"], ["/usr/bin/python3", "-c", LOAD.replace("FILES", repr(turned))], user="root")
    count = lambda s: server.run(s["id"], "cat /tmp/count 2>/dev/null || true")["stdout"]  # noqa: E731
    killed = []
    try:
        for turn in range(9):
            time.sleep(DICE.uniform(0.05, 0.4))  # at any moment of a download
            name = ("cordon-cache", "cordon-egress", "cordond")[turn % 3] if turn < 3 else DICE.choice(
                ("cordon-cache", "cordon-cache", "cordon-egress", "cordond"))
            killed.append(name)
            revived(server, name, server.kill(name))
        before = {s["id"]: len(count(s)) for s in sessions}
        for s in sessions:
            wait_for(lambda s=s: len(count(s)) > before[s["id"]] + 2, 30, "downloads go on", step=0.2)
        note(f"whole answers: {[len(count(s)) for s in sessions]}; killed: {killed}")
        for s in sessions:
            check("!" not in count(s), f"a whole answer with other bytes after {killed}")
    finally:
        R.heal()
        for s in sessions:
            server.delete(s["id"])
    wait_for(lambda: not [n for n in files_of(f"{server.state}/packages") if n.startswith("tmp/")], 10, "nothing is being written")
    revived(server, "cordon-cache", server.kill("cordon-cache"))
    wait_for(lambda: kept(server) > 0, 10, "the folder")
    whole_folder(server, f"after {killed}")


def memory(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(next(line for line in f if line.startswith("VmHWM")).split()[1]) // 1024


def test_a_large_file_takes_no_memory(server):
    s = session(server)
    stored(server, s)
    path, _ = package(pad=24 << 20)
    before = {name: memory(server.pid(name)) for name in ("cordon-egress", "cordon-cache")}
    want = hashlib.sha256(R.parts["npm"].data(R.packages[-1])).hexdigest()
    for turn in ("from the registry", "from the cache"):
        R.forget()
        line = f"curl -sS -m 60 https://npm.example{path} | sha256sum"
        equal(server.run(s["id"], ["/bin/sh", "-c", line], user="root")["stdout"][:64], want, turn)
        if turn == "from the registry":
            wait_for(lambda: not [n for n in files_of(f"{server.state}/packages") if n.startswith("tmp/")], 20, "stored")
    equal(R.count(path), 0, "requests to the registry for the second")
    for name, was in before.items():
        check(memory(server.pid(name)) < was + 12, f"{name}: {memory(server.pid(name))} MiB, {was} before")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2, egress_processes=1)

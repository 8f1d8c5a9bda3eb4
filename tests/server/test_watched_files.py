#!/usr/bin/python3 -B
"""Goal: with watch_reads the audit log says which program asked for a watched file, by whatever name it did; with trace files each file that programs
open, remove, rename and link is listed. Floods are bounded, and what was lost is counted.

    test_watched_files.py CORDON [name ...]
"""
import json
import os
import signal
import subprocess

from harness import check, equal, has, run_tests, wait_for
from test_refused_calls import watcher

KILLS = True
MAPPED = """
import mmap, sys
with open(sys.argv[1], "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
    print(m[:].decode(), end="")
"""
BY_PATH = """
import os
fd = os.open("/data/a/one", os.O_PATH)
print(open("/proc/self/fd/%d" % fd).read(), end="")
"""
IN_ROOT = """
import ctypes, os, struct
fd = ctypes.CDLL(None).syscall(437, os.open("/srv", os.O_PATH), b"/data/one", struct.pack("=QQQ", 0, 0, 0x10), 24)
print(os.read(fd, 99).decode(), end="")
"""
OUTSIDE = """
import os
os.chdir("/srv"); os.chroot("/tmp")
print(open("data/one").read(), end="")
"""
REMOVED = """
import os
os.mkdir("/tmp/gone"); os.chdir("/tmp/gone"); os.rmdir("/tmp/gone")
print(open("../../srv/data/one").read(), end="")
"""
DEEP = """
import os
os.chdir("/tmp")
for i in range(20):
    os.mkdir("d" * 240); os.chdir("d" * 240)
print(open("../" * 21 + "srv/data/one").read(), end="")
"""
BY_DIRECTORY = """
import os
print(open("/dev/fd/%d/data/one" % os.open("/srv", os.O_PATH)).read(), end="")
"""
TWO_NAMES = """
import os
for name in ("two", "three"):
    open("/tmp/new", "w").close()
    os.rename("/tmp/new", "/srv/data/" + name)
"""
HARMLESS = "cat /proc/self/status /proc/thread-self/maps /etc/hostname /no/such/at/all > /dev/null; ln -s /no/where /tmp/no; cat /tmp/no; true"
FLOOD = """
import os, sys
for i in range(int(sys.argv[1])):
    os.close(os.open("/data/n%d" % i, os.O_RDONLY | os.O_CREAT))
"""


def watched(server, reads=("/data/**",), **more):
    s = server.create(watch_reads=list(reads), **more)
    equal(s["watch_reads"], list(reads))
    return s["id"]


def fill(server, s):
    """Files for the tests. What it opened is on record before they begin."""
    done = server.run(s, ["sh", "-c", "mkdir -p /data/a /else && echo secret > /data/a/one && echo other > /else/two && cp /bin/cat /tmp/renamed"], user="root")
    equal(done["exit_code"], 0, done["stderr"])
    wait_for(lambda: [r for r in records(server, s) if r["side"]["path"]["value"] == "/data/a/one"], 20, "the write")
    return records(server, s)[-1]["seq"]


def records(server, s, after=0):
    found, at = [], after
    while at is not None:
        page = server.want(200, "GET", f"/v1/audit?session={s}&type=file.watched&limit=1000&after={at}")
        found += page["records"]
        at = page["next"]
    return [r for r in found if r.get("side")]


def lost(server, s):
    page = server.want(200, "GET", f"/v1/audit?session={s}&type=file.watched&limit=1000")["records"]
    return sum(r["record"]["data"]["lost"] for r in page)


def of(record):
    side = record["side"]
    return os.path.basename(side["program"]["value"]), record["record"]["data"]["access"], side["path"]["value"]


def test_by_any_name(server):
    s = watched(server)
    fill(server, s)
    wants = []
    for command, program, access, path in (
        (["cat", "/data/a/one"], "cat", "read", "/data/a/one"),
        (["/tmp/renamed", "/data/a/one"], "renamed", "read", "/data/a/one"),
        (["python3", "-c", MAPPED, "/data/a/one"], None, "read", "/data/a/one"),
        (["sh", "-c", "ln -s /data/a/one /tmp/soft; exec cat /tmp/soft"], "cat", "read", "/data/a/one"),
        (["sh", "-c", "cd /data/a && exec cat ../a/./one"], "cat", "read", "/data/a/one"),
        (["sh", "-c", "ln -s /data /tmp/dir; exec cat /tmp/dir/a/one"], "cat", "read", "/data/a/one"),
        (["sh", "-c", "exec cat < /data/a/one"], None, "read", "/data/a/one"),
        (["cat", "/proc/self/root/data/a/one"], "cat", "read", "/proc/self/root/data/a/one"),
        (["python3", "-c", BY_PATH], None, "read", "/data/a/one"),
        (["ln", "/data/a/one", "/else/hard"], "ln", "link", "/data/a/one"),
        (["mv", "/data", "/moved"], "mv", "rename", "/data"),
        (["mv", "/moved", "/data"], "mv", "rename", "/moved"),
        (["sh", "-c", "echo more >> /data/a/one"], None, "write", "/data/a/one"),
        (["rm", "/data/a/one"], "rm", "remove", "/data/a/one"),
    ):
        done = server.run(s, command, user="root")
        equal(done["exit_code"], 0, f"{command}: {done['stderr']}")
        wants.append((done["id"], program, access, path))

    def is_there(want):
        return [r for r in records(server, s) if r["record"].get("execution") == want[0] and of(r)[1:] == want[2:] and want[1] in (None, of(r)[0])]

    for want in wants:
        found = wait_for(lambda: is_there(want), 20, f"{want} in {[of(r) for r in records(server, s)]}")  # noqa: B023
        equal(found[0]["record"]["data"]["source"], "claimed", str(found[0]))
        check("/data" not in json.dumps(found[0]["record"]), f"a path that is not sealed: {found[0]['record']}")
    equal(server.run(s, ["cat", "/else/two"], user="root")["stdout"], "other\n")
    equal(server.run(s, ["cat", "/data/none"], user="root")["exit_code"], 1)
    wait_for(lambda: [r for r in records(server, s) if of(r) == ("cat", "read", "/data/none")], 20, "a file that is not there")
    check("/else/two" not in [of(r)[2] for r in records(server, s)], "a file that is not watched")
    late = [r["record"]["data"]["late_ms"] for r in records(server, s)]
    check(0 < max(late) < 60000, f"how late the records are: {late}")
    times = [r["record"]["time"] for r in server.want(200, "GET", f"/v1/audit?session={s}&limit=1000")["records"]]
    equal(times, sorted(times), "times of records, which are written later than files are asked for")
    server.delete(s)


def test_by_ways_that_hide_the_name(server):
    """What can be looked up has its name. What cannot is recorded as it was asked for."""
    s = watched(server, ("/srv/data/**", "/home/*/key"))
    equal(server.run(s, ["sh", "-c", "mkdir -p /srv/data /home/me; echo secret > /srv/data/one; ln -s /srv /tmp/srv"], user="root")["exit_code"], 0)
    harmless = server.run(s, ["sh", "-c", HARMLESS], user="root")["id"]
    one, wants = "/srv/data/one", []
    for command, access, path in (
        (["sh", "-c", "cd / && exec cat proc/self/root/srv/data/one"], "read", "proc/self/root/srv/data/one"),
        (["cat", "/tmp/../proc/self/root/srv/data/one"], "read", "/tmp/../proc/self/root/srv/data/one"),
        (["cat", "/proc/self/../../srv/data/one"], "read", one),
        (["sh", "-c", "ln -s /proc/self/root /tmp/root; exec cat /tmp/root/srv/data/one"], "read", "/tmp/root/srv/data/one"),
        (["python3", "-c", BY_DIRECTORY], "read", "/dev/fd/3/data/one"),
        (["python3", "-c", IN_ROOT], "read", one),
        (["python3", "-c", OUTSIDE], "read", "data/one"),
        (["python3", "-c", REMOVED], "read", "../../srv/data/one"),
        (["python3", "-c", DEEP], "read", "../" * 21 + "srv/data/one"),
        (["sh", "-c", "cd / && echo a > srv/data/relative"], "write", "/srv/data/relative"),
        (["sh", "-c", "echo a > /tmp/srv/data/linked"], "write", "/srv/data/linked"),
        (["sh", "-c", "ln -s /srv/data/dangling /tmp/dangling; echo a > /tmp/dangling"], "write", "/srv/data/dangling"),
        (["sh", "-c", "ln -s /srv/data/one /tmp/soft; exec ln -L /tmp/soft /tmp/hard"], "link", one),
        (["mv", "/home/me", "/home/you"], "rename", "/home/me"),
    ):
        done = server.run(s, command, user="root")
        equal(done["exit_code"], 0, f"{command}: {done['stderr']}")
        wants.append((done["id"], access, path))
    twice = server.run(s, ["python3", "-c", TWO_NAMES], user="root")["id"]

    def found():
        return [(r["record"].get("execution"), *of(r)[1:]) for r in records(server, s)]

    for want in wants:
        wait_for(lambda: want in found(), 20, f"{want} in {found()}")  # noqa: B023
    names = wait_for(lambda: (got := [r["side"]["to"]["value"] for r in records(server, s) if r["record"].get("execution") == twice and "to" in r["side"]])
                     and len(got) > 1 and got, 20, "both names")
    equal(sorted(names), ["/srv/data/three", "/srv/data/two"])
    equal([f for f in found() if f[0] == harmless], [], "files that are not watched")
    server.delete(s)


def test_secrets_in_cut_names(server):
    """A name that was cut may end with a half of a value."""
    server.want(201, "POST", "/v1/secrets", {"name": "watched", "value": "a-secret-value-0123456789"})
    s = watched(server, secrets=[{"name": "watched", "as": "env", "env": "T"}], trace="files")
    for cut, call in ((299, "os.rename(p, '/data/to')"), (598, "open(p)")):
        code = (f"import os\np = '/data/' + 'x' * 200 + '/'\nwhile len(p) < {cut} - 240: p += 'y' * 200 + '/'\n"
                f"p += 'z' * ({cut} - 10 - len(p)) + os.environ['T']\ntry: {call}\nexcept OSError: pass\n")
        done = server.run(s, ["python3", "-c", code])
        equal(done["exit_code"], 0, done["stderr"])
        found = wait_for(lambda: [r["side"]["path"]["value"] for r in records(server, s) if r["record"].get("execution") == done["id"]], 20, call)  # noqa: B023
        equal([(len(name), name.rstrip("*")[-1:] in "xyz/") for name in found], [(cut, True)], found)
    check("a-sec" not in json.dumps(records(server, s)), "a part of its value is in a record")
    check("a-sec" not in json.dumps(entries(server, s)), "a part of its value is in the trace")
    server.delete(s)
    server.want(204, "DELETE", "/v1/secrets/watched")


def test_a_thousand_at_once(server):
    """They are bounded, and what has no record is counted. Those of the last second are recorded at the end."""
    s = watched(server)
    fill(server, s)
    before = len(records(server, s)) + lost(server, s)
    equal(server.run(s, ["python3", "-c", FLOOD, "3000"], user="root")["exit_code"], 0)
    equal(server.run(s, ["sh", "-c", "for i in 1 2 3 4 5; do cat /data/n0; done"], user="root")["exit_code"], 0)
    server.delete(s)
    server.reaches(s, "ended")
    found = records(server, s)
    check(256 <= len(found) <= 1300, f"{len(found)} records")
    check(lost(server, s) > 1000, f"{lost(server, s)} lost")
    entries = [r["record"]["data"]["entry"] for r in found]
    equal(entries, sorted(set(entries)), "each entry once, in order")
    check(before + 3000 <= len(found) + lost(server, s) <= before + 3100, f"{before} before, {len(found)} and {lost(server, s)} lost: not each one")


def test_after_a_restart(server):
    s = watched(server, ("/data/*/one", "/etc/hostname"))
    fill(server, s)
    n = len(records(server, s))
    server.restarted("cordond")
    equal(server.run(s, ["sh", "-c", "cat /etc/hostname /etc/passwd /data/a/one"], user="root")["exit_code"], 0)
    wait_for(lambda: len(records(server, s)) >= n + 2, 20, "records of the next cordond")
    entries = [r["record"]["data"]["entry"] for r in records(server, s)]
    equal(len(entries), len(set(entries)), "no entry twice")
    check("/etc/passwd" not in [of(r)[2] for r in records(server, s)], "not watched")
    server.delete(s)


def entries(server, s):
    return server.want(200, "GET", f"/v1/sessions/{s}/trace?limit=1000")["entries"]


def test_in_a_directory_of_one_user(server):
    """The watcher looks paths up that only this user may."""
    s = watched(server, ("/tmp/private/**",))
    line = "mkdir -m 700 /tmp/private; echo a > /tmp/private/one; ln -s one /tmp/private/two; exec cat /tmp/private/two"
    equal(server.run(s, line)["stdout"], "a\n")
    wait_for(lambda: ("cat", "read", "/tmp/private/one") in [of(r) for r in records(server, s)], 20, "the read")
    server.delete(s)


def test_trace_files(server):
    s = server.create(trace="files")["id"]
    done = server.run(s, ["sh", "-c", "echo a > /tmp/f; cat /tmp/f /tmp/f /tmp/f; mv /tmp/f /tmp/g; rm /tmp/g"])
    equal(done["exit_code"], 0)
    found = {(os.path.basename(e["path"]), tuple(e["access"]), e["file"], e["to"]): e for e in entries(server, s) if e["kind"] == "file"}
    for want in (("cat", ("read",), "/tmp/f", None), ("mv", ("rename",), "/tmp/f", "/tmp/g"), ("rm", ("remove",), "/tmp/g", None)):
        check(want in found, f"{want} in {list(found)}")
    cat = found[("cat", ("read",), "/tmp/f", None)]
    check(cat["times"] in (2, 3) and cat["source"] == "claimed" and cat["uid"] > 0, cat)  # in one second or two
    equal({e["kind"] for e in entries(server, s)}, {"file"})
    said = subprocess.run([server.program, "trace", s], env={**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key},
                          capture_output=True, text=True, timeout=60)
    has(said.stdout, "read x", said.stderr)
    equal(records(server, s), [], "a trace is no record")
    server.delete(s)


def test_refusals(server):
    for reads in (["data"], ["/"], ["/a/../b"], ["/a//b"], ["/a/**/b"], ["/a?"], ["/[a]"], ["/a\n"], ["/" + "a" * 199], ["/a"] * 17, [1], "/a"):
        status, _, body = server.request("POST", "/v1/sessions", {"watch_reads": reads})
        equal(status, 400, f"{reads}: {body}")
        has(body["error"]["message"], "watch_reads", body)
    made = server.want(201, "POST", "/v1/sessions", {"watch_reads": ["/" + "a" * 198] * 16})["id"]
    server.ids.add(made)
    server.delete(made)
    for trace in ("programs", "calls"):
        server.refused(422, "unsupported", "POST", "/v1/sessions", {"watch_reads": ["/a"], "trace": trace}, "watch_reads")
    s = server.create()["id"]
    equal((server.get(s)["watch_reads"], records(server, s)), ([], []), "a session without")
    server.delete(s)


def test_the_watcher_dies(server):
    """No program of the session can open a file then: it ends, and does not go on unwatched."""
    s = watched(server)
    fill(server, s)
    os.kill(watcher(server, {"id": s}), signal.SIGKILL)
    wait_for(lambda: server.get(s)["state"] == "ended", 30, "its end")
    equal(server.get(s)["reason"], "alarm")


if __name__ == "__main__":
    run_tests(globals())

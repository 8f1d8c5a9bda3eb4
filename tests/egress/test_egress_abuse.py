#!/usr/bin/python3 -B
"""Goal: a brokered secret gets to the one place it is bound to, and no way leads it anywhere else;
what is allowed cannot be used for what is not, and the gateway itself is no way in.

    test_egress_abuse.py CORDON [name ...]

One test for each attack, in a small internet of its own (internet.py)."""
import base64
import os
import re
import secrets as random
import urllib.parse

import internet
import languages_root
import level
from harness import Skip, check, equal, has, wait_for
from internet import EVIL, INTERNAL, METADATA
from internet_client import both, curl, make, policy, probe, recorded, records, sh

RULE = {"name": "api", "host": "api.example", "secret": "token", "paths": ["/v1/**", "/secret", "/redirect", "/echo"]}
OTHERS = [{"host": "web.example"}, {"host": "look.example", "tls": "terminate"}]


class Holder:
    """A session with a brokered secret: its value, and the placeholder that the cell has."""

    def __init__(self, server, rules=(RULE, *OTHERS), **bound):
        self.server, self.value = server, "s3cr3t/" + random.token_urlsafe(24) + "+x"
        bound = {"hosts": ["api.example"], "methods": ["GET", "POST"], "paths": ["/v1/**", "/secret", "/redirect"],
                 **bound}
        server.want(201, "POST", "/v1/secrets", {"name": "token", "value": self.value, **bound})
        self.session = make(server, policy(*rules), secrets=[{"name": "token", "as": "broker", "env": "TOKEN"}])
        self.placeholder = sh(server, self.session, "printf %s $TOKEN")["stdout"]
        check(re.fullmatch(r"cordon_[a-z0-9]{32}", self.placeholder), f"placeholder {self.placeholder!r}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.want(204, "DELETE", "/v1/secrets/token")

    def get(self, url, *options):
        """(exit code, status, what the cell saw). As hexadecimal digits it leaves the cell: cordond masks output, too,
        and it is the gateway that is tested."""
        words = ["curl", "-sS", "-m", "10", "-i", "-w", "\n%{http_code}", "-H", f"Authorization: Bearer "
                 f"{self.placeholder}", *options, url]
        line = '"$@" > /tmp/seen 2>&1; echo $? >> /tmp/seen; od -An -v -tx1 /tmp/seen | tr -d " \\n"'
        done = self.server.run(self.session["id"], ["sh", "-c", line, "sh", *words])
        text = bytes.fromhex(done["stdout"]).decode("latin-1")
        found = re.fullmatch(r"(?s)(.*)\n(\d\d\d)((?:curl:.*?)?)(\d+)\n", text)
        check(found, f"what curl said: {text!r}")
        return int(found[4]), int(found[2]), found[1] + found[3]

    def forms(self):
        whole = self.value
        yield from (whole, urllib.parse.quote(whole, safe=""), base64.b64encode(whole.encode()).decode().rstrip("="))
        for shift in (b"Bearer ", b"x", b"xy"):  # base64 at each of the three phases
            text = base64.b64encode(shift + whole.encode()).decode().rstrip("=")
            yield text[(len(shift) * 4 + 2) // 3 + 1:-2]

    def never_in(self, text, what):
        for form in self.forms():
            check(form not in text, f"{what} holds the secret: {text[:600]!r}")

    def arrived(self, path):
        """Authorization headers that servers saw at this path."""
        return [v for h in internet.NET.hit(path) for n, v in h["headers"] if n.lower() == "authorization"]


def test_secret_is_put_in_where_it_belongs(server):
    with Holder(server) as h:
        code, status, text = h.get("https://api.example/v1/x")
        equal((code, status), (0, 200), text)
        equal(h.arrived("/v1/x"), [f"Bearer {h.value}"], "what the server got")
        h.never_in(text, "the echo")
        code, status, text = curl(server, h.session, "https://api.example/v1/basic", "-u", f"user:{h.placeholder}")
        equal(h.arrived("/v1/basic"), ["Basic " + base64.b64encode(f"user:{h.value}".encode()).decode()],
              "basic authentication")
        seen = sh(server, h.session, "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | od -An -v -tx1 | tr -d ' \\n'",
                  user="root")["stdout"]
        has(text := bytes.fromhex(seen).decode("latin-1"), h.placeholder, "what is in the cell")
        h.never_in(text, "the cell")


def test_secret_needs_no_rule_that_looks(server):
    """`cordon create --allow api.example --secret token=broker:TOKEN`: a rule that is a host and nothing else."""
    with Holder(server, rules=("api.example", *OTHERS)) as h:
        h.get("https://api.example/v1/bare")
        equal(h.arrived("/v1/bare"), [f"Bearer {h.value}"], "at the server")


def test_secret_of_one_execution(server):
    """Egress knows the placeholder before the program starts, and not any more after its end."""
    text = "s3cr3t/" + random.token_urlsafe(24)
    server.want(201, "POST", "/v1/secrets", {"name": "mine", "value": text, "hosts": ["api.example"]})
    session = make(server, policy("api.example"))
    wish = [{"name": "mine", "as": "broker", "env": "MINE"}]
    line = 'curl -sS -m 10 -o /dev/null -H "Authorization: Bearer $MINE" https://api.example/v1/own; printf %s "$MINE"'
    for i in range(5):
        seen = server.run(session["id"], line, secrets=wish)["stdout"]
        got = [v for h in internet.NET.hit("/v1/own") for n, v in h["headers"] if n.lower() == "authorization"]
        equal(got[i:], [f"Bearer {text}"], "what the server got")
    late = f'curl -sS -m 10 -o /dev/null -H "Authorization: Bearer {seen}" https://api.example/v1/late'

    def is_worthless():
        server.run(session["id"], late)
        got = [v for h in internet.NET.hit("/v1/late") for n, v in h["headers"] if n.lower() == "authorization"]
        return got and got[-1] == f"Bearer {seen}"

    wait_for(is_worthless, 5, "the end of the placeholder")
    server.want(204, "DELETE", "/v1/secrets/mine")


def test_secret_echo_in_response(server):
    with Holder(server) as h:
        _, status, text = h.get("https://api.example/secret")
        equal(h.arrived("/secret"), [f"Bearer {h.value}"], "what the server got")
        equal(status, 200, text)
        h.never_in(text, "the answer")
        has(text, "Bearer *", "masked")
        _, _, text = h.get("https://api.example/secret", "--compressed", "-H", "Range: bytes=3-60")
        h.never_in(text, "a part of the answer")


def test_secret_echo_in_location(server):
    with Holder(server) as h:
        _, status, text = h.get("https://api.example/secret?as=location")
        equal(status, 302, text)
        h.never_in(text, "Location")
        _, _, text = h.get("https://api.example/secret?as=location", "-L", "--location-trusted", "-k")
        h.never_in(str(internet.NET.hit("/echo")), "the request behind the redirect")


def test_secret_guessed_by_redirects(server):
    """A server that sends back what it was asked for, the one that has the secret and another: a right guess of a part
    looks like a wrong one."""
    with Holder(server) as h:
        h.get("https://api.example/secret")
        guesses = [h.value[:n] for n in range(1, len(h.value), 3)]
        guesses += [g[:-1] + ("a" if g[-1] != "a" else "b") for g in guesses]
        for site in ("https://api.example", "http://web.example"):
            urls = [f"{site}/redirect?to=https://x.example/{urllib.parse.quote(g, safe='')}" for g in guesses]
            done = h.server.run(h.session["id"], ["sh", "-c", 'curl -sS -m 20 -i "$@" 2>&1 | grep -i "^location:" | '
                                                  'od -An -v -tx1 | tr -d " \\n"', "sh", *urls])
            lines = bytes.fromhex(done["stdout"]).decode("latin-1").split("\r\n")[:-1]
            equal([urllib.parse.unquote(line.split("x.example/")[1]) for line in lines], guesses, site)


def test_secret_echo_in_error(server):
    with Holder(server) as h:
        _, status, text = h.get("https://api.example/secret?as=error")
        equal(status, 500, text)
        h.never_in(text, "the error")
        for path in ("/v1/x/%zz", "/shut", "/v1/../shut"):
            _, status, text = h.get(f"https://api.example{path}", "--path-as-is")
            check(status in (400, 403), f"{path}: {status}")
            h.never_in(text, "a refusal")


def test_secret_echo_in_log(server):
    with Holder(server) as h:
        h.get("https://api.example/secret")
        h.get(f"https://api.example/v1/{urllib.parse.quote(h.value, safe='')}?q={urllib.parse.quote(h.value, safe='')}")
        sh(server, h.session, f"echo '{h.value}' | base64; echo '{h.value}'; "
           f"curl -sS -m 5 'http://web.example/echo?x={h.value}'")
        recorded(server, h.session, lambda r: r.get("path") == "/secret")
        h.never_in(str(records(server, h.session)), "records")
        events = server.want(200, "GET", f"/v1/sessions/{h.session['id']}/events")
        lines = [line for line in server.log().splitlines() if h.session["id"] in line]
        h.never_in("\n".join(lines), "the server's log")
        h.never_in(str([e for e in events["events"] if e["type"].startswith("session.")]), "events")
        equal([r["secrets"] for r in records(server, h.session, kind="request") if r.get("path") == "/secret"],
              ["token"], "its name is there")


def test_secret_only_for_exact_host(server):
    with Holder(server, rules=({"host": "*.example", "secret": "token"},)) as h:
        for host in ("look.example", "web.example", "other.example", "git.example"):
            h.get(f"https://{host}/v1/h")
        equal(set(h.arrived("/v1/h")), {f"Bearer {h.placeholder}"}, "other hosts")
        check(recorded(server, h.session, lambda r: r.get("path") == "/v1/h" and "placeholder" in r.get("reason", "")),
              "on record")
        probe(server, h.session, f"tls_get('look.example', '/v1/n', 'Authorization: {h.placeholder}\\r\\n', "
              f"header='api.example')")
        equal([v for v in h.arrived("/v1/n") if h.value in v], [], "a Host of another connection")


def test_secret_only_for_exact_path(server):
    with Holder(server, rules=({"host": "api.example", "secret": "token"},), paths=["/v1/**"]) as h:
        for path in ("/v2/x", "/v1", "/V1/x", "/v1/../v2/y", "/v1%2f..%2fv2/z", "/echo", "//v1/x"):
            h.get(f"https://api.example{path}", "--path-as-is")
        seen = [v for hit in internet.NET.hits for n, v in hit["headers"] if n == "Authorization"]
        check(len(seen) >= 4 and set(seen) == {f"Bearer {h.placeholder}"}, f"other paths: {seen}")
        h.get("https://api.example/x/../v1/ok", "--path-as-is")
        equal(h.arrived("/v1/ok"), [f"Bearer {h.value}"], "the path as it is sent on")


def test_secret_only_for_exact_method(server):
    with Holder(server, methods=["GET"]) as h:
        for method in ("POST", "PUT", "HEAD", "get"):
            h.get("https://api.example/v1/m", "-X", method, "-m", "3")
        seen = h.arrived("/v1/m")
        check(seen and set(seen) == {f"Bearer {h.placeholder}"}, f"other methods: {seen}")


def test_secret_only_where_it_may_stand(server):
    with Holder(server, **{"in": ["header"]}) as h:
        h.get(f"https://api.example/v1/q?key={h.placeholder}", "-H", "Authorization:", "-d", f"token={h.placeholder}")
        h.get(f"https://api.example/v1/{h.placeholder}", "-H", "Authorization:")
        whole = str([(x["path"], x["body"]) for x in internet.NET.hits])
        h.never_in(whole, "path, query or body")
    with Holder(server, **{"in": ["body:token"]}) as h:
        for text in (f'{{"token": "{h.placeholder}", "other": "{h.placeholder}"}}',):
            curl(server, h.session, "https://api.example/v1/b", "-H", "Content-Type: application/json", "-d", text,
                 "-H", f"X-Key: {h.placeholder}")
        hit = internet.NET.hit("/v1/b")[0]
        equal(hit["body"].decode(), f'{{"token": "{h.value}", "other": "{h.placeholder}"}}', "the bound field alone")
        check(h.value not in str(hit["headers"]), "a header it is not bound to")


def test_secret_never_on_a_redirect(server):
    with Holder(server) as h:
        for to in ("https://look.example/echo", "http://api.example/v1/plain", "http://web.example/echo",
                   "https://api.example/echo"):
            h.get(f"https://api.example/redirect?to={to}", "-L", "--location-trusted")
        equal([v for v in h.arrived("/echo") + h.arrived("/v1/plain") if h.value in v], [], "behind a redirect")
        equal(len(h.arrived("/redirect")), 4, "before it")


def test_secret_never_to_plain_http(server):
    with Holder(server, rules=({"host": "api.example", "paths": ["/**"]}, *OTHERS)) as h:
        h.get("https://api.example/v1/tls")
        equal(h.arrived("/v1/tls"), [f"Bearer {h.value}"], "the same rule with TLS")
        h.get("http://api.example/v1/plain")
        equal(h.arrived("/v1/plain"), [f"Bearer {h.placeholder}"], "what arrives in the clear")
        h.get("http://api.example:443/v1/plain")
        probe(server, h.session, f"raw(*PROXY, 'GET http://api.example/v1/plain HTTP/1.1\\r\\nHost: "
              f"api.example\\r\\nAuthorization: {h.placeholder}\\r\\n\\r\\n')")
        equal([v for v in h.arrived("/v1/plain") if h.value in v], [], "in the clear")
    with Holder(server) as h:
        _, status, text = h.get("http://api.example/v1/plain")
        check(status == 403, f"a rule with a secret does not allow plain HTTP: {status} {text}")


def test_secret_never_to_an_unverified_server(server):
    with Holder(server, rules=({"host": "wrongname.example", "secret": "token"},
                               {"host": "selfsigned.example", "secret": "token"}),
                hosts=["wrongname.example", "selfsigned.example"]) as h:
        for host in ("wrongname.example", "selfsigned.example"):
            _, status, text = h.get(f"https://{host}/v1/x", "-k")
            equal(status, 502, f"{host}: {text}")
        equal(internet.NET.hits, [], "requests to servers without a valid certificate")


def test_secret_revoked_at_once(server):
    h = Holder(server)
    h.get("https://api.example/v1/before")
    equal(h.arrived("/v1/before"), [f"Bearer {h.value}"], "before")
    server.want(204, "DELETE", "/v1/secrets/token")
    h.get("https://api.example/v1/after")
    equal([v for v in h.arrived("/v1/after") if h.value in v], [], "after")


# ---- F


def test_allowed_service_as_a_way_out(server):
    """One bucket of a store that is allowed for reading is no other bucket and no way to write."""
    s = make(server, policy({"name": "mine", "host": "store.example", "methods": ["GET", "HEAD"],
                             "paths": ["/mine/**"]}))
    check(curl(server, s, "https://store.example/mine/x")[1] == 200, "reading")
    for url, *options in (("https://store.example/theirs/x",), ("https://store.example/mine/x", "-T", "/etc/passwd"),
                          ("https://store.example/mine/x", "-d", "data"),
                          ("https://store.example/mine/x", "-X", "DELETE"),
                          ("https://store.example/mine/../theirs/x", "--path-as-is"),
                          ("https://store.example/", "-H", "Host: theirs.store.example"),
                          ("https://store.example/mine/x", "-H", "Host: evil.example"),
                          ("https://store.example/theirs/x", "-H", "X-HTTP-Method-Override: GET"),
                          ("https://theirs.store.example/mine/x",)):
        code, status, text = curl(server, s, url, *options)
        check(status == 403 or code == 6, f"{url} {options}: {code} {status} {text[:200]}")
    equal([x["path"] for x in internet.NET.hits], ["/mine/x"], "what arrived")


def test_package_proxy_as_pivot(server):
    """The gateway itself reaches nothing internal, whichever session asks it, however a registry redirects it."""
    s = make(server, {"version": 1, "default": "allow"})
    for to in (f"http://{INTERNAL}/", f"http://{METADATA}/latest/meta-data/", "http://127.0.0.1:8088/",
               "http://internal.corp.example/"):
        _, status, text = curl(server, s, f"http://registry.example/redirect?to={to}", "-L")
        check(status in (0, 302, 403), f"{to}: {status} {text[:200]}")
        _, status, _ = curl(server, s, f"http://registry.example/{to}", "--path-as-is")
        check(all(x["address"] == "93.184.216.35" for x in internet.NET.hits), f"{to} as a path")


def egress_status(server):
    with open(f"/proc/{server.pid('cordon-egress')}/status", encoding="ascii") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def test_gateway_is_unprivileged(server):
    status, pid = egress_status(server), server.pid("cordon-egress")
    check(all(int(n) not in (0, 64983) for n in status["Uid"].split()), f"users {status['Uid']}")
    equal([int(status[n], 16) for n in ("CapInh", "CapPrm", "CapEff", "CapAmb")], [0] * 4, "capabilities")
    equal((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), "no new privileges, seccomp")
    folder = f"/proc/{pid}/fd"
    open_now = {n: os.readlink(f"{folder}/{n}") for n in os.listdir(folder)}
    files = {n: p for n, p in open_now.items() if p.startswith("/") and p != "/dev/null" and os.path.exists(p)}
    bad = {n: p for n, p in files.items() if os.path.isdir(p) or not p.endswith("/log")}
    equal(bad, {}, "files and folders that it holds open")


def test_gateway_parsers_are_fuzzed(server):
    folder = os.path.join(internet.HERE, "..", "..", "fuzz")
    for name in ("dns_query", "dns_reply", "tls_hello", "http_request", "http_response", "chunk", "policy", "host_path",
                 "secrets", "llm_call", "egress_msg",
                 "endpoint", "mask", "resolv_conf"):
        check(os.path.exists(f"{folder}/fuzz_{name}.c"), f"no fuzz target {name}")
        check(os.listdir(f"{folder}/corpus/{name}"), f"no corpus of {name}")


def test_upstream_bytes_are_hostile(server):
    s = make(server, policy({"host": "web.example"}, {"host": "look.example", "paths": ["/**"]}))
    before = server.pid("cordon-egress")
    for path in ("/split", "/twolengths", "/bighead", "/h2c", "/silent"):
        got = probe(server, s, f"[get('web.example', '{path}'), tls_get('look.example', '{path}')]")
        check(all(g.startswith("HTTP/1.1 502 ") for g in got), f"{path}: {[g[:100] for g in got]}")
    check(curl(server, s, "http://web.example/cut")[0] != 0, "an answer cut short looks whole")
    equal(server.pid("cordon-egress"), before, "the gateway is still the same")


READ = {"host": "registry.example", "methods": ["GET", "HEAD"], "class": "packages"}


def test_publish_to_a_registry_is_blocked(server):
    s = make(server, policy(READ))
    check(curl(server, s, "https://registry.example/pkg")[1] == 200, "reading")
    for method in ("PUT", "POST", "DELETE", "PATCH", "MKCOL", "put"):
        equal(curl(server, s, "https://registry.example/pkg", "-X", method, "-d", "{}")[1], 403 if method.isupper() else 400, method)
    equal([x["method"] for x in internet.NET.hits], ["GET"], "what arrived")
    if sh(server, s, "command -v npm")["exit_code"] != 0:
        raise Skip("npm is not on this machine; the same was tried with curl")
    done = sh(server, s, "mkdir -p /tmp/p && cd /tmp/p && echo '{\"name\":\"p\",\"version\":\"1.0.0\"}' > package.json "
              "&& "
              "npm publish --registry=https://registry.example/ --//registry.example/:_authToken=x --no-audit "
              "--no-update-notifier")
    check(done["exit_code"] != 0 and "403" in done["stderr"], f"npm publish: {done['exit_code']} "
          f"{done['stderr'][-500:]}")
    check(all(x["method"] == "GET" for x in internet.NET.hits), "what npm sent")
    denied = recorded(server, s, lambda r: r.get("method") == "PUT" and r["verdict"] == "deny")
    check(denied[0]["reason"], "the reason on record")


def test_dependency_confusion_fails_closed(server):
    """Names of packages are paths: what is not named is not there. (An age gate is none of this gateway's.)"""
    s = make(server, policy({**READ, "paths": ["/@ours/**", "/@ours%2F*"]}))
    for path, want in (("/@ours/pkg", 200), ("/@ours%2fpkg", 200), ("/pkg", 403), ("/@theirs/pkg", 403),
                       ("/@ours/../pkg", 403),
                       ("/@ours%2f..%2fpkg", 400), ("/@ours/..%2fpkg", 400)):
        status = curl(server, s, f"https://registry.example{path}", "--path-as-is")[1]
        check(status == want or want == 400 and status == 403, f"{path}: {status}, want {want}")


if __name__ == "__main__":
    level.ROOT = languages_root
    internet.enter()
    internet.run_tests(globals(), pool_size=2)

#!/usr/bin/python3 -B
"""Goal: a session reaches what its policy allows and nothing else, whatever dies meanwhile; a change of
the policy counts at once, for what is open, too; and everything that was tried is on record.

    test_network_policy.py CORDON [name ...]

Runs in a network of its own, in which there is one server, origin.test, at an address that the
operator opened, and another at one that he did not.
"""
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from harness import Server, Skip, check, equal, has, run_tests, wait_for
from level import differs  # after harness, which knows where it is
from process_stream import Box, collect

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "behaviour"))
from tap import bind  # noqa: E402
import level  # noqa: E402

KILLS = True  # tests here kill programs of the server
STAGE = "CORDON_TEST_OWN_NETWORK"
ORIGIN, PRIVATE, PORT = "10.99.0.1", "10.98.0.1", 8000
HOSTS = f"127.0.0.1 localhost\n{ORIGIN} origin.test other.test\n{PRIVATE} private.test\n"
LONG = 100000000  # bytes of a transfer that no window holds
OVER_LOOPBACK = f"""
import os, socket
listener = socket.create_server(("::1", 7000), family=socket.AF_INET6)
if os.fork() == 0:
    with listener.accept()[0] as s:
        s.sendall(bytes({LONG}))
    os._exit(0)
got = 0
with socket.create_connection(("::1", 7000)) as s:
    s.settimeout(20)
    while piece := s.recv(1 << 20):
        got += len(piece)
print(got)
"""
NODE = {"version": 1, "private": ["10.99.0.0/16", ORIGIN]}  # an address of the node itself must be named by itself


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path.startswith("/drip"):
            return self.drip()
        if self.path.startswith("/long"):
            return self.long()
        if "/v1" in self.path:
            return self.model()
        body = f"{self.command} {self.path} {self.headers.get('Host')}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def model(self):
        """Answers of model APIs: OpenAI's, Gemini's, and one with numbers that no model has."""
        usage = {"prompt_tokens": -5, "completion_tokens": 1 << 60} if "absurd" in self.path else {"prompt_tokens": 100, "completion_tokens": 7}
        answer = {"model": "m", "usage": usage, "choices": []}
        if self.path.startswith("/v1beta/"):
            answer = {"candidates": [], "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 20, "thoughtsTokenCount": 3}}
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def long(self):
        self.send_response(200)
        self.send_header("Content-Length", str(LONG))
        self.end_headers()
        for _ in range(LONG // 1000000):
            self.wfile.write(bytes(1000000))

    def drip(self):
        """A piece every 50 ms, until its reader has enough."""
        self.send_response(200)
        self.send_header("Content-Length", "100000000")
        self.end_headers()
        try:
            for _ in range(1200):
                self.wfile.write(b"x" * 10)
                self.wfile.flush()
                time.sleep(0.05)  # a slow answer
        except OSError:
            pass
        self.close_connection = True

    def log_message(self, *_):
        pass


def rule(host="origin.test", **more):
    return {"host": host, "ports": [PORT], **more}


def policy(*rules, **more):
    return {"version": 1, "rules": list(rules), **more}


def curl(server, session, url, *options, seconds=10):
    """(exit code, status, output)"""
    words = " ".join(["curl", "-sS", "-m", str(seconds), "-w", "'\\n%{http_code}'", *options, f"'{url}'"])
    done = server.run(session["id"], words)
    text, _, status = done["stdout"].rpartition("\n")
    return done["exit_code"], int(status or 0), text + done["stderr"]


def reaches(server, session, url=f"http://origin.test:{PORT}/hello"):
    return curl(server, session, url)[1] == 200


def records(server, session, **query):
    words = "&".join(f"{k}={v}" for k, v in query.items())
    return server.want(200, "GET", f"/v1/sessions/{session['id']}/network/log?{words}")["records"]


def put(server, session, what):
    return server.want(200, "PUT", f"/v1/sessions/{session['id']}/network", what)


def test_the_default_is_deny(server):
    """It is refused, explained and recorded; the session is made without waiting for egress."""
    s = server.create()
    equal(s["network"], None, "network of a session that does not say")
    path = f"/v1/sessions/{s['id']}/network"
    shown = wait_for(lambda: (n := server.want(200, "GET", path))["state"] == "open" and n, 10, "the listener")
    equal((shown["name"], shown["from"]), ("deny", "default"), "network")
    for _ in range(3):  # the first connections of a session that was just made wait for egress, and are refused by it
        new = server.create()
        code, status, text = curl(server, new, f"http://{ORIGIN}:{PORT}/")
        equal((code, status), (0, 403), f"refused with a reason: {text}")
        has(text, "policy", "the reason")
        seen = wait_for(lambda: records(server, new), 15, "the record")
        equal({(r["verdict"], r["port"]) for r in seen}, {("deny", PORT)}, str(seen))
        server.delete(new["id"])


def test_none(server):
    s = server.create(network="none")
    equal(s["network"], "none", "network of the session")
    shown = server.want(200, "GET", f"/v1/sessions/{s['id']}/network")
    equal((shown["name"], shown["from"], shown["state"]), ("none", "session", "none"), "network")
    began = time.monotonic()
    code, status, text = curl(server, s, f"http://{ORIGIN}:{PORT}/")
    # refused, or accepted and reset
    check(code in ((7, 56) if differs("no network access") else (7,)) and status == 0, f"a session without network connects: {code} {status} {text}")
    code, _, text = curl(server, s, f"http://origin.test:{PORT}/")
    check(code == 6, f"a session without network knows names: {code} {text}")
    check(time.monotonic() - began < 8, "a refusal takes long")
    equal(records(server, s), [], "records of a session without a door")


def test_long_transfers_by_ipv6(server):
    """Segments of TCP over IPv6 are as long as the device allows: one that is too long is never sent."""
    s = server.create(network=policy(rule()))
    done = server.run(s["id"], ["python3", "-c", OVER_LOOPBACK])
    equal((done["exit_code"], done["stdout"], done["stderr"]), (0, f"{LONG}\n", ""), "over ::1")
    words = f"curl -6 -sS -m 120 -y 1000 -Y 20 -o /dev/null -w '%{{size_download}} %{{remote_ip}}' http://origin.test:{PORT}/long"
    done = server.run(s["id"], words)
    size, _, address = done["stdout"].partition(" ")
    equal((done["exit_code"], size, done["stderr"]), (0, str(LONG), ""), "by AAAA")
    has(address, ":", "the address that was connected to")


def test_allowed_and_denied(server):
    s = server.create(network=policy(rule(name="origin")))
    equal(s["network"], "custom", "network of the session")
    equal(server.want(200, "GET", f"/v1/sessions/{s['id']}/network")["state"], "open", "state when it is made")
    code, status, text = curl(server, s, f"http://origin.test:{PORT}/hello?a=b")
    equal((code, status), (0, 200), f"an allowed request ({text})")
    has(text, f"GET /hello?a=b origin.test:{PORT}", "what the origin saw")
    code, status, _ = curl(server, s, f"http://other.test:{PORT}/")
    equal((code, status), (0, 403), "a name that no rule has")
    code, status, _ = curl(server, s, f"http://{ORIGIN}:{PORT}/")
    check(status != 200, "an address that no rule has is reached")
    wait_for(lambda: len(records(server, s, kind="request", allowed="true")) >= 1, 15, "the record of a request")
    good = records(server, s, kind="request", allowed="true")[0]
    for name, want in {"name": "origin.test", "port": PORT, "method": "GET", "path": "/hello", "query": "a=b",
                       "verdict": "allow", "rule": "origin", "status": 200}.items():
        equal(good.get(name), want, f"member {name} of {good}")
    denied = wait_for(lambda: records(server, s, allowed="false"), 15, "the record of a refusal")
    check(all(r["verdict"] == "deny" and r.get("reason") for r in denied), f"refusals have reasons: {denied}")
    check("other.test" in [r.get("name") for r in denied], f"the refused name is there: {denied}")
    equal([r["seq"] for r in denied], sorted(r["seq"] for r in denied), "order of records")
    everything = records(server, s)
    page = server.want(200, "GET", f"/v1/sessions/{s['id']}/network/log?limit=1")
    equal([r["seq"] for r in page["records"]], [everything[0]["seq"]], "a page")
    after = records(server, s, after=page["next"])
    equal([r["seq"] for r in after], [r["seq"] for r in everything[1:]], "the pages after it")
    equal(records(server, s, name="origin.test", kind="request")[0]["seq"], good["seq"], "by name")
    wait_for(lambda: server.get(s["id"])["usage"]["network"]["requests"] >= 1, 15, "the count of requests")
    check(server.get(s["id"])["usage"]["network"]["bytes_in"] > 0, "bytes are counted")


def test_tokens_of_model_calls(server):
    """Tokens of recorded calls are added to the usage of tenant, label and session once, in the transaction of their records, and have a price."""
    ident, key = server.tenant("tokens")
    s = server.create(key=key, network=policy(rule(**{"class": "model"})), metadata={"label": "red"})

    def call(path):
        done = server.run(s["id"], f"curl -sS -m 10 -d '{{\"model\": \"m\"}}' -H 'Content-Type: application/json' http://origin.test:{PORT}{path}", key=key)
        equal(done["exit_code"], 0, done)

    def tokens(query="", name="labels"):
        (row,) = [u for u in server.want(200, "GET", "/v1/usage" + query, key=key)[name]]
        return row["model_tokens_in"], row["model_tokens_out"]

    def calls():
        return [r for r in server.want(200, "GET", f"/v1/sessions/{s['id']}/network/log?kind=request", key=key)["records"] if r.get("model")]

    call("/v1/chat/completions")
    call("/v1beta/models/gemini-2.5-pro:generateContent")
    wait_for(lambda: len(calls()) == 2, 20, "the records")
    for query, name in (("", "labels"), ("?by=session", "usage"), ("?by=tenant", "tenants")):
        equal(tokens(query, name), (1100, 30), name)
    server.kill("cordond")
    server.wait_ready()
    equal(tokens(), (1100, 30), "of a cordond that was killed: written with the records")
    call("/v1/chat/completions?absurd")
    wait_for(lambda: len(calls()) == 3, 20, "the record")
    check(tokens()[0] == 1100 and 30 <= tokens()[1] <= 30 + 10**9, tokens())
    call("/hello")
    equal(server.want(200, "GET", "/v1/usage", key=key)["labels"][0]["label"], "red")
    prices = os.path.join(server.folder, "prices.json")
    with open(prices, "w") as f:
        json.dump({"model_million_in": 5, "model_million_out": 0, "currency": "EUR"}, f)
    done = subprocess.run([server.program, "usage", "--by", "session", "--prices", prices, "--csv"], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, CORDON_SERVER=server.url, CORDON_API_KEY=key))
    head, row = [line.split(",") for line in done.stdout.splitlines()]
    equal((row[head.index("model_tokens_in")], row[head.index("cost")]), ("1100", "0.005500"), done.stdout)


def test_private_stays_closed(server):
    s = server.create(network=policy(rule("private.test"), {"cidr": f"{PRIVATE}/32", "ports": [PORT]}))
    for url in (f"http://private.test:{PORT}/", f"http://{PRIVATE}:{PORT}/"):
        check(not reaches(server, s, url), f"{url} is reached, which the operator did not open")


def test_denied_block_by_name(server):
    """What is denied by address is denied under any name that leads there."""
    blocked = {"cidr": f"{ORIGIN}/32", "ports": "any", "action": "deny"}
    s = server.create(network=policy(blocked, default="allow"))
    check(not reaches(server, s, f"http://{ORIGIN}:{PORT}/"), "a denied address is reached")
    check(not reaches(server, s), "a denied address is reached by its name")
    s = server.create(network=policy(rule(), blocked, default="allow"))
    check(reaches(server, s), "a name that was allowed before is not reached")


def test_presets_and_mistakes(server):
    for network in ("deny", ["pypi", "npm"], {"version": 1, "extends": ["pypi"]}):
        server.create(network=network)
    for network, words in (
        ("nothing-of-that-name", "nothing-of-that-name"),
        ({"version": 1, "rules": [{"host": "a b"}]}, "rules[0].host"),
        ({"version": 1, "rules": [{"host": "https://example.org"}]}, "leave out https://"),
        ({"version": 1, "rules": ["https://example.org"]}, "leave out https://"),
        ({"version": 1, "rules": [], "unheard": 1}, "unheard"),
        ({"version": 1, "private": ["10.0.0.0/8"]}, "private"),
        (5, "network"),
    ):
        server.refused(400, "invalid", "POST", "/v1/sessions", {"network": network}, words)
    s = server.create()
    server.refused(400, "invalid", "PUT", f"/v1/sessions/{s['id']}/network", {"version": 2}, "version")
    server.refused(404, "not_found", "PUT", "/v1/sessions/i0000/network", "deny")
    server.refused(400, "invalid", "GET", f"/v1/sessions/{s['id']}/network/log?kind=x", None, "kind")


def test_change_counts_at_once(server):
    s = server.create(network="deny")
    check(not reaches(server, s), "denied, and reached")
    shown = put(server, s, policy(rule()))
    equal((shown["name"], shown["state"]), ("custom", "open"), "after the change")
    check(reaches(server, s), "allowed by a change, and not reached")
    x = server.spawn(s["id"], f"curl -sSN -m 60 -o /tmp/got http://origin.test:{PORT}/drip")
    wait_for(lambda: server.run(s["id"], "wc -c < /tmp/got")["stdout"].strip() not in ("", "0"), 10, "the first bytes")
    began = time.monotonic()
    put(server, s, "deny")
    done = server.ended(x, 10)
    check(done["exit_code"] != 0 and time.monotonic() - began < 5, f"an open connection is cut: {done}")
    check(not reaches(server, s), "denied by a change, and reached")
    kinds = [v["type"] for v in server.want(200, "GET", f"/v1/sessions/{s['id']}/events")["events"]]
    equal(kinds.count("session.network"), 2, f"events of changes in {kinds}")


def test_none_and_back(server):
    s = server.create()
    put(server, s, policy(rule()))
    check(reaches(server, s), "a door that is opened later")
    shown = put(server, s, "none")
    equal(shown["name"], "deny", "none of a session that has a door")
    began = time.monotonic()
    check(not reaches(server, s), "none, and reached")
    check(time.monotonic() - began < 8, "a refusal takes long")
    put(server, s, policy(rule()))
    check(reaches(server, s), "and back")


def test_paused(server):
    s = server.create(network=policy(rule()))
    status, _, body = server.request("POST", f"/v1/sessions/{s['id']}/pause")
    if status == 422:
        raise Skip("no pause here")
    equal(status, 200, f"pause ({body})")
    put(server, s, "deny")
    check(not reaches(server, s), "denied while it was paused, and reached")
    server.want(200, "POST", f"/v1/sessions/{s['id']}/pause")
    put(server, s, policy(rule()))
    check(reaches(server, s), "allowed while it was paused, and not reached")


def test_change_while_paused_after_a_death(server):
    """Nobody is there to ask, so the change is in force when it is written."""
    s = server.create(network=policy(rule()))
    status, _, body = server.request("POST", f"/v1/sessions/{s['id']}/pause")
    if status == 422:
        raise Skip("no pause here")
    equal(status, 200, f"pause ({body})")
    old = server.kill("cordon-egress")
    wait_for(lambda: server.pid("cordon-egress") not in (None, old), 15, "another egress")
    time.sleep(1.5)  # the new egress has all sessions that run; the paused one has no sign
    began = time.monotonic()
    put(server, s, "deny")
    check(time.monotonic() - began < 8, "a change of a paused session waits")
    put(server, s, policy(rule()))
    server.want(200, "POST", f"/v1/sessions/{s['id']}/resume")
    wait_for(lambda: reaches(server, s), 10, "its network")


def test_tenant_layer(server):
    ident, key = server.tenant("layered")
    path = f"/v1/tenants/{ident}/network"
    equal(server.want(200, "GET", path)["policy"], None, "layer of a new tenant")
    s = server.create(key=key, network=policy(rule(), rule("other.test")))
    s_run = lambda url: server.run(s["id"], f"curl -sS -m 5 -o /dev/null -w '%{{http_code}}' {url}", key=key)["stdout"]  # noqa: E731
    equal(s_run(f"http://other.test:{PORT}/"), "200", "before")
    server.want(200, "PUT", path, {"version": 1, "rules": [{**rule("other.test"), "action": "deny", "reason": "not here"}]})
    equal(s_run(f"http://origin.test:{PORT}/"), "200", "what the tenant's layer does not name")
    check(s_run(f"http://other.test:{PORT}/") != "200", "what the tenant's layer denies is reached")
    server.refused(403, "forbidden", "PUT", path, "deny", key=key)
    server.refused(400, "invalid", "PUT", path, {"version": 1, "private": ["10.0.0.0/8"]}, "private")
    server.want(200, "PUT", path, {"version": 1})
    server.delete(s["id"], key=key)
    server.want(204, "DELETE", f"/v1/tenants/{ident}")


def test_tenant_layer_of_many(server):
    """A layer that concerns many sessions, whose orders are sent over several turns, reaches all of them."""
    ident, key = server.tenant("many-sessions")
    many = [f"h{i}.test:{PORT}" for i in range(990)]
    sessions = [server.create(key=key, network=policy(rule(), *many)) for _ in range(4)]
    get = f"curl -sS -m 3 -o /dev/null -w '%{{http_code}}' http://origin.test:{PORT}/"
    reach = lambda: [server.run(s["id"], get, key=key)["stdout"] for s in sessions]  # noqa: E731
    equal(reach(), ["200"] * 4, "before")
    path = f"/v1/tenants/{ident}/network"
    server.want(200, "PUT", path, {"version": 1, "rules": [{**rule(), "action": "deny"}]})
    wait_for(lambda: "200" not in reach(), 10, "the layer in all of them")
    server.want(200, "PUT", path, {"version": 1})
    wait_for(lambda: reach() == ["200"] * 4, 10, "the network, without the layer")
    for s in sessions:
        server.delete(s["id"], key=key)
    server.want(204, "DELETE", f"/v1/tenants/{ident}")


def test_rate_of_changes(server):
    """A tenant that changes long policies as fast as it can is held at a rate of bytes; others are not."""
    _, key = server.tenant("fast")
    s = server.create(key=key, network=policy(rule()))
    path = f"/v1/sessions/{s['id']}/network"
    many = policy(*[{"host": f"h{i}.test", "paths": "/" + "a" * 80} for i in range(990)])
    answers = []
    while not answers or (answers[-1][0] == 200 and len(answers) < 200):
        answers.append(server.request("PUT", path, many, key=key))
    status, headers, body = answers[-1]
    equal((status, body["error"]["code"]), (429, "quota_rate"), f"after {len(answers)} changes")
    check({k.lower(): v for k, v in headers.items()}.get("retry-after") == "1", str(headers))
    check(len(answers) > 8, f"only {len(answers)} changes were taken")
    other = server.create(network=policy(rule()))
    server.want(200, "PUT", f"/v1/sessions/{other['id']}/network", many)
    server.delete(other["id"])
    wait_for(lambda: server.request("PUT", path, many, key=key)[0] == 200, 10, "the rate")
    server.delete(s["id"], key=key)


def test_rate_of_merged_policies(server):
    """Merging the largest policies takes milliseconds: only a request that wants the result pays for it."""
    ident, key = server.tenant("readers")
    read = server.want(201, "POST", f"/v1/tenants/{ident}/keys", {"name": "r", "scopes": ["read"]})["key"]
    pins = {f"npm:name{i}" + "x" * 60: ["1.0.0"] for i in range(3000)}
    s = server.create(key=key, network={"version": 1, "packages": {"registries": ["npm"], "mode": "pinned", "pins": pins}})
    path = f"/v1/sessions/{s['id']}/network"
    for _ in range(40):
        shown = server.want(200, "GET", path, key=read)
        check("effective" not in shown, "a merged policy that was not asked for")
        equal(len(shown["policy"]["packages"]["pins"]), 3000, "its own")
    statuses = [server.request("GET", path + "?effective=true", key=read) for _ in range(12)]
    refused = [body for status, _, body in statuses if status == 429]
    check(refused and refused[0]["error"]["code"] == "quota_rate", f"no bound for merged policies: {[(s, len(str(b))) for s, _, b in statuses]}")
    wait_for(lambda: server.request("GET", path + "?effective=true", key=read)[0] == 200, 10, "room")
    server.refused(400, "invalid", "GET", path + "?effective=much", None, "effective", key=read)
    before = server.want(200, "GET", path, key=key)["policy"]
    server.refused(400, "invalid", "PUT", path + "?effective=much", {"rules": [{"host": "other.example"}]}, "effective", key=key)
    equal(server.want(200, "GET", path, key=key)["policy"], before, "a change that was refused")
    server.delete(s["id"], key=key)


def test_rate_of_lockfiles(server):
    """A body with lockfiles costs the time of its pins, also if it is refused, whatever its length and spelling."""
    for word in ("lockfiles", "lock\\u0066iles"):
        _, key = server.tenant("locks" + str(len(word)))
        text = "\\n".join(f"a{i}==1.0" for i in range(15000)) + "\\n-r wrong"
        body = ('{"network": {"version": 1, "packages": {"registries": ["pypi"], "%s": [{"name": "requirements.txt", "text": "%s"}]}}}'
                % (word, text))
        statuses = [server.request("POST", "/v1/sessions", body.encode(), key=key)[0] for _ in range(30)]
        check(set(statuses) == {400, 429} and statuses.index(429) < 20, f"{word}: {statuses}")


def test_turns_of_egress(server):
    def count():
        text = server.want(200, "GET", "/metrics", raw=True).decode()
        found = re.search(r"^cordon_egress_loop_turn_seconds_count (\d+)$", text, re.M)
        return found is not None and int(found[1]) > 0 and "cordon_egress_loop_turn_slowest_seconds{callback=" in text

    wait_for(count, 15, "turns of egress in /metrics")


def test_change_that_does_not_merge(server):
    """What cannot be put together with a stricter layer does not go on as if there were none."""
    ident, key = server.tenant("many-rules")
    s = server.create(key=key, network=policy(rule(), *[f"h{i}.test:{PORT}" for i in range(990)]))
    path = f"http://origin.test:{PORT}"
    get = f"curl -sS -m 3 -o /dev/null -w '%{{http_code}}' {path}/"
    equal(server.run(s["id"], get, key=key)["stdout"], "200", "before")
    x = server.spawn(s["id"], f"curl -sSN -m 60 -o /tmp/got {path}/drip", key=key)
    wait_for(lambda: server.run(s["id"], "wc -c < /tmp/got", key=key)["stdout"].strip() not in ("", "0"), 10, "bytes")
    deny = [{**rule(f"x{i}.test"), "action": "deny"} for i in range(3200)]
    server.want(200, "PUT", f"/v1/tenants/{ident}/network", {"version": 1, "rules": [{**rule(), "action": "deny"}, *deny]})
    done = lambda: server.want(200, "GET", f"/v1/sessions/{s['id']}/executions/{x['id']}", key=key)["ended_at"]  # noqa: E731
    wait_for(done, 15, "the end of a connection that was open")
    check(server.run(s["id"], get, key=key)["stdout"] != "200", "the old policy is in force")
    server.want(200, "PUT", f"/v1/tenants/{ident}/network", {"version": 1})
    wait_for(lambda: server.run(s["id"], get, key=key)["stdout"] == "200", 10, "the network, when it merges again")
    server.delete(s["id"], key=key)
    server.want(204, "DELETE", f"/v1/tenants/{ident}")


def dripping(server, s):
    x = server.spawn(s["id"], f"curl -sSN -m 100 -o /tmp/got http://origin.test:{PORT}/drip")
    size = lambda: int(server.run(s["id"], "wc -c < /tmp/got 2>/dev/null || echo 0")["stdout"].strip() or 0)  # noqa: E731
    wait_for(size, 10, "the first bytes")
    return x, size


def test_restart_of_the_daemon(server):
    s = server.create(network=policy(rule()))
    x, size = dripping(server, s)
    server.restarted("cordond")
    wait_for(lambda: server.want(200, "GET", f"/v1/sessions/{s['id']}/network")["state"] == "open", 10, "the network")
    before = size()
    wait_for(lambda: size() > before, 15, "bytes of a connection from before")
    check(reaches(server, s), "a new connection after a restart")
    put(server, s, "deny")
    check(server.ended(x, 10)["exit_code"] != 0, "a connection from before is cut by a change")
    check(not reaches(server, s), "the policy counts after a restart")


def test_restart_while_paused(server):
    s = server.create(network=policy(rule()))
    x, size = dripping(server, s)
    status, _, body = server.request("POST", f"/v1/sessions/{s['id']}/pause")
    if status == 422:
        raise Skip("no pause here")
    equal(status, 200, f"pause ({body})")
    server.restarted("cordond")
    time.sleep(1.5)  # everything that runs is attached again, and egress forgets the others
    server.want(200, "POST", f"/v1/sessions/{s['id']}/resume")
    wait_for(lambda: server.want(200, "GET", f"/v1/sessions/{s['id']}/network")["state"] == "open", 10, "the door")
    check(reaches(server, s), "a new connection after it")
    check(not reaches(server, s, f"http://other.test:{PORT}/"), "the policy is intact")
    if differs("memory images"):
        check(server.ended(x, 10)["exit_code"] != 0, "connections end with the cell")
        return
    before = size()
    wait_for(lambda: size() > before, 15, "bytes of a connection from before")
    server.want(204, "DELETE", f"/v1/sessions/{s['id']}/executions/{x['id']}")


def test_death_of_egress(server):
    s = server.create(network=policy(rule()))
    closed = server.create(network="deny")
    x, _ = dripping(server, s)
    old = server.kill("cordon-egress")
    check(server.ended(x, 10)["exit_code"] != 0, "connections end with it")
    wait_for(lambda: server.pid("cordon-egress") not in (None, old), 15, "another egress")
    wait_for(lambda: server.want(200, "GET", f"/v1/sessions/{s['id']}/network")["state"] == "open", 10, "the door")
    check(reaches(server, s), "the policy is intact: allowed")
    check(not reaches(server, closed), "the policy is intact: denied")
    check(not reaches(server, s, f"http://other.test:{PORT}/"), "the policy is intact: what it does not name")
    fresh = server.create(network=policy(rule()))
    check(reaches(server, fresh), "a new session after it")


def test_slow_pid_1(server):
    """A cell that has no time to answer when egress comes back has its network when it does."""
    s = server.create(network=policy(rule()))
    init = server.cell_pids(s["id"])[0]
    os.kill(init, signal.SIGSTOP)
    try:
        old = server.kill("cordon-egress")
        wait_for(lambda: server.pid("cordon-egress") not in (None, old), 15, "another egress")
        state = lambda: server.want(200, "GET", f"/v1/sessions/{s['id']}/network")["state"]  # noqa: E731
        wait_for(lambda: state() == "failed", 10, "the end of patience")
    finally:
        os.kill(init, signal.SIGCONT)
    wait_for(lambda: state() == "open", 15, "the door, late")
    check(reaches(server, s), "the network, late")


def test_followed(server):
    s = server.create(network=policy(rule()))
    link = server.link(timeout=20)
    link.request("GET", f"/v1/sessions/{s['id']}/network/log?follow=true&kind=request&after=0",
                 headers={"Authorization": f"Bearer {server.key}"})
    answer = link.getresponse()
    equal((answer.status, answer.getheader("content-type")), (200, "text/event-stream"), "the stream")
    for path in ("/one", "/two"):
        check(reaches(server, s, f"http://origin.test:{PORT}{path}"), path)
    seen = []
    while len(seen) < 2:
        line = answer.fp.readline().decode()
        check(line != "", "the stream ends")
        if line.startswith("data:"):
            seen.append(json.loads(line[5:])["path"])
    equal(seen, ["/one", "/two"], "what was followed")
    link.close()


def test_command_line(server):
    env = {**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}

    def cordon(*words, code=0):
        done = subprocess.run([server.program, *words], env=env, capture_output=True, text=True, timeout=30)
        equal(done.returncode, code, f"cordon {' '.join(words)}: {done.stderr}")
        return done.stdout

    ident = cordon("create", "--allow", f"origin.test:{PORT}").strip()
    server.ids.add(ident)
    s = {"id": ident}
    check(reaches(server, s), "--allow")
    check(not reaches(server, s, f"http://other.test:{PORT}/"), "what --allow did not name")
    wait_for(lambda: records(server, s, allowed="false"), 15, "records")
    lines = wait_for(lambda: [v for v in cordon("net", ident).splitlines() if " request " in v], 15, "the request")
    check(re.search(rf"allow +request +GET http://origin.test:{PORT}/hello 200 ", lines[0]), lines[0])
    denied = cordon("net", "--denied", ident).splitlines()
    check(denied and all(" deny " in v for v in denied), f"--denied: {denied}")
    for line in cordon("net", "--json", ident).splitlines():
        check("seq" in json.loads(line), line)
    cordon("net", "--allow", f"other.test:{PORT}", ident)
    check(not reaches(server, s) and reaches(server, s, f"http://other.test:{PORT}/"), "another policy by net --allow")
    cordon("net", "--policy", "none", ident)
    check(not reaches(server, s, f"http://other.test:{PORT}/"), "net --policy none")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(policy(rule("other.test")), f)
        f.flush()
        ident = cordon("create", "--policy", f.name, "--policy", "pypi").strip()
    server.ids.add(ident)
    equal(server.get(ident)["network"], "pypi+custom", "network of --policy FILE and PRESET")
    check(reaches(server, {"id": ident}, f"http://other.test:{PORT}/"), "--policy FILE")


def test_refusals_are_told_with_the_execution(server):
    """A closed network looks like many faults: the answer of the execution names the hosts, and cordon exec says how to allow them."""
    env = {**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}
    s = server.create(network=policy(rule()))
    ask = ["curl", "-s", "-m", "5", f"http://other.test:{PORT}/"]
    run = f"/v1/sessions/{s['id']}/executions"
    done = wait_for(lambda: (x := server.want(200, "POST", run + "?wait=true", {"argv": ask})) and x["denied"] and x, 15, "a refusal")
    equal([d["name"] for d in done["denied"]], ["other.test"], "hosts that were refused")
    check(done["denied"][0]["kind"] in ("dns", "connect", "request") and done["denied"][0]["reason"], str(done["denied"]))
    equal(done["denied"][0]["allow"], {"rules": [{"host": "other.test"}]}, "what a policy needs")
    equal(server.want(200, "GET", f"{run}/{done['id']}")["denied"], done["denied"], "the same, asked for later")
    fine = server.want(200, "POST", run + "?wait=true", {"argv": ["curl", "-s", f"http://origin.test:{PORT}/hello"]})
    equal(fine["denied"], [], "of an execution that was refused nothing")

    def client(*words):
        return subprocess.run([server.program, "exec", s["id"], "--", *words], env=env, capture_output=True, text=True, timeout=30).stderr

    said = wait_for(lambda: "refused" in (text := client(*ask)) and text, 15, "the client's hint")
    equal(said, f"cordon: the network policy refused 1 host (other.test): cordon net {s['id']}; what allows them: --allow other.test\n")

    def asks():
        time.sleep(1.2)  # a name that is asked for again within a second makes no second record
        urls = ("https://pypi.org/", "https://files.pythonhosted.org/", f"http://other.test:{PORT}/")
        return client("sh", "-c", "; ".join(f"curl -s -m 5 {url}" for url in urls) + "; true")

    # A preset for what it has, once.
    said = wait_for(lambda: "3 hosts" in (text := asks()) and text, 15, "three hosts")
    check(said.endswith(("; what allows them: --policy pypi --allow other.test\n", "; what allows them: --allow other.test --policy pypi\n")), said)
    equal(client("true"), "", "nothing was refused")
    server.delete(s["id"])


def test_refusals_on_stderr_of_e2b(server):
    """A command that failed names the hosts that it was refused; one that did not fail, or has a terminal, says what it said."""
    box = Box(server, allow_internet_access=False)
    ask = f"curl -s -m 5 http://other.test:{PORT}/ >/dev/null"
    said = wait_for(lambda: b"refused" in (text := bytes(box.run(ask + "; exit 3")[1])) and text, 15, "the line")
    equal(said, b"cordon: the network policy refused 1 host (other.test); what allows them: a rule for other.test\n")
    equal(bytes(box.run(ask + "; exit 0")[1]), b"", "of one that did not fail")
    equal(bytes(box.run("exit 3")[1]), b"", "of one that was refused nothing")
    server.delete(box.id)


def test_limits_on_stderr_of_e2b(server):
    """A command during which the sandbox hit a limit names it, also if it ended with 0; one with a terminal says only what it says."""
    fill = "head -c 300M /dev/zero > /tmp/big 2> /dev/null; sleep 0.5; rm /tmp/big; echo err >&2; exit "
    box = Box(server)
    out, err, end, _ = box.run(fill + "0")
    equal((bytes(err), end.get("exitCode", 0)), (b"err\ncordon: limit reached: disk, although the command ended with 0\n", 0), f"{out}")
    equal(bytes(box.run(fill + "3")[1]), b"err\ncordon: limit reached: disk\n", "of one that failed")
    equal(bytes(box.run("echo err >&2")[1]), b"err\n", "of one that hit nothing")
    stream = box.start(fill + "0", pty={"size": {"rows": 24, "cols": 80}})
    stream.pid()
    equal([b"limit reached" in bytes(part) for part in collect(stream)[:2]], [False, False], "with a terminal")
    server.delete(box.id)
    with Server(pool_size=0, e2b_limits="no") as silent:
        box = Box(silent)
        equal(bytes(box.run(fill + "0")[1]), b"err\n", "switched off")


def test_metrics(server):
    text = server.request("GET", "/metrics", raw=True)[2].decode()
    numbers = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    equal(numbers["cordon_egress_up"], "1", "egress")
    check(int(numbers['cordon_network_records_total{verdict="allow"}']) > 0, "records")
    check(int(numbers['cordon_network_records_total{verdict="deny"}']) > 0, "refusals")
    check(int(numbers['cordon_network_bytes_total{direction="in"}']) > 0, "bytes")


def own_network():
    """Comes back in network and mount namespaces of our own."""
    if os.environ.get(STAGE) is None:
        os.environ[STAGE] = "1"
        level.fetch(os.path.abspath(sys.argv[1]))  # while there is a network
        os.execvp("unshare", ["unshare", "--net", "--mount", "--", sys.executable, "-B", *sys.argv])
    if os.environ[STAGE] == "1":
        os.environ[STAGE] = "2"
        for words in ("link set lo up", f"addr add {ORIGIN}/32 dev lo", f"addr add {PRIVATE}/32 dev lo"):
            subprocess.run(["ip", *words.split()], check=True)
        with tempfile.NamedTemporaryFile("w", delete=False) as f:
            f.write(HOSTS)
        os.chmod(f.name, 0o644)
        bind(f.name, "/etc/hosts")
        os.unlink(f.name)


def serve():
    for address in (ORIGIN, PRIVATE):
        origin = http.server.ThreadingHTTPServer((address, PORT), Origin)
        origin.daemon_threads = True
        threading.Thread(target=origin.serve_forever, daemon=True).start()


class Late(dict):
    """The test functions; the origin is started when they are asked for: threads do not survive fork()."""

    def items(self):
        serve()
        return super().items()


if __name__ == "__main__":
    if os.geteuid() == 0:
        own_network()
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir="/var/tmp") as node:
        json.dump(NODE, node)
        node.flush()
        os.chmod(node.name, 0o644)
        run_tests(Late(globals()), pool_size=2, egress_policy=node.name)

#!/usr/bin/python3 -B
"""Goal: everything that a session tried is on record once, with every member that doc/network.md lists: names, connections
that were passed on, requests, refusals with their rule and reason, calls of models; and it is counted.

    test_egress_records.py CORDON [name ...]

Runs in a small internet of its own (internet.py)."""
import json
import os
import re
import subprocess
import time

import internet
import checks  # in ../shared, which internet.py adds to the path
from harness import check, equal, has, wait_for
from internet import ONLY6, WEB, WEB6
from internet_client import TRUST, curl, make, policy, probe, put, records, recorded, sh

RULES = [{"name": "web", "host": "web.example", "class": "docs"},
         {"name": "no writing", "host": "look.example", "methods": ["PUT"], "action": "deny",
         "reason": "reading only; ask for a copy"},
         {"name": "look", "host": "look.example", "paths": ["/open/**"], "class": "api"},
         {"name": "bytes", "host": "raw.example", "ports": [2222], "protocol": "tcp"},
         {"name": "six", "host": "six.example"}]
EVERY = {"seq", "time", "execution_id", "time_ms", "kind", "verdict", "us"}


def settled(server, s, seconds=5):
    """All records, when no more come."""
    wait_for(lambda: records(server, s), seconds, "a record")
    return checks.settled(lambda: records(server, s), 0.4, seconds)


def only(rows, **members):
    found = [r for r in rows if all(r.get(k) == v for k, v in members.items())]
    check(len(found) == 1, f"{len(found)} records of {members}: {found or rows}")
    return found[0]


def complete(r, *more):
    missing = (EVERY | set(more)) - set(r)
    equal(sorted(missing), [], f"members that {r} lacks")
    check(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", r["time"]), r["time"])
    check(abs(r["time_ms"] / 1000 - time.time()) < 120 and 0 <= r["us"] < 60_000_000, f"times of {r}")


REQUEST = ("name", "address", "port", "scheme", "method", "path", "status", "bytes_out", "bytes_in", "rule")


def test_requests(server):
    s = make(server, policy(*RULES))
    equal(curl(server, s, "http://web.example/echo?a=b")[1], 200)
    equal(curl(server, s, "https://look.example/open/1", "-d", "12345")[1], 200)
    equal(curl(server, s, "http://six.example/echo")[1], 200)
    sh(server, s, "curl -sS -o /dev/null -o /dev/null -m 9 http://web.example/one http://web.example/two", 0)
    rows = settled(server, s)
    r = only(rows, kind="request", name="web.example", path="/echo")
    complete(r, *REQUEST, "query", "class")
    check(r["address"] in (WEB, WEB6), r["address"])
    equal((r["port"], r["scheme"], r["method"], r["query"], r["status"], r["verdict"], r["rule"], r["class"]),
          (80, "http", "GET", "a=b", 200, "allow", "web", "docs"), "members")
    check(r["bytes_in"] > 200 and r["bytes_out"] > 50, f"bytes of {r}")
    r = only(rows, kind="request", name="look.example")
    complete(r, *REQUEST, "tls")
    equal((r["scheme"], r["tls"], r["method"], r["port"], r["rule"]), ("https", "terminate", "POST", 443, "look"),
          "terminated")
    equal(only(rows, kind="request", name="six.example")["address"], ONLY6, "IPv6")
    for path in ("/one", "/two"):
        complete(only(rows, kind="request", path=path), *REQUEST)
    equal(len([r for r in rows if r["kind"] == "request"]), 5, "requests")
    equal([r for r in rows if r["kind"] == "connect"], [], "a connection with requests has no record of its own")
    equal([r["seq"] for r in rows], sorted(r["seq"] for r in rows), "order")


def test_connections(server):
    s = make(server, policy(*RULES))
    equal(curl(server, s, "https://web.example/echo", "--cacert", TRUST)[1], 200)
    probe(server, s, "tcp()", before="""
def tcp():
    s = connect('raw.example', 2222)
    s.sendall(b'12345')
    return len(s.recv(99))""")
    rows = settled(server, s)
    r = only(rows, kind="connect", name="web.example")
    complete(r, "name", "address", "port", "scheme", "tls", "rule", "bytes_out", "bytes_in")
    equal((r["scheme"], r["tls"], r["port"], r["verdict"], r["rule"]), ("https", "pass", 443, "allow", "web"),
          "passed on")
    check(r["bytes_in"] > 500 and r["bytes_out"] > 200, f"bytes of {r}")
    r = only(rows, kind="connect", name="raw.example")
    equal((r["scheme"], r["bytes_out"], r["bytes_in"], r["rule"]), ("tcp", 5, 5, "bytes"), "bytes of any kind")
    equal([r for r in rows if r["kind"] == "request"], [], "requests that egress could not read")


def test_refusals(server):
    s = make(server, policy(*RULES))
    curl(server, s, "https://look.example/open/1", "-T", "/etc/hostname")
    curl(server, s, "https://look.example/shut")
    curl(server, s, "http://93.184.216.66/x")
    curl(server, s, "https://93.184.216.66/x")
    curl(server, s, "http://web.example:8080/x")
    probe(server, s, "tls('web.example', 'evil.example', check=False)")
    rows = [r for r in settled(server, s) if r["verdict"] == "deny"]
    for r in rows:
        complete(r, "reason")
    r = only(rows, kind="request", method="PUT")
    equal((r["rule"], r["status"], r["name"], r["path"]), ("no writing", 403, "look.example", "/open/1"), "by a rule")
    has(r["reason"], "reading only; ask for a copy", "its reason")
    r = only(rows, kind="request", path="/shut")
    has(r["reason"], "not allowed", "by no rule")
    r = only(rows, kind="request", address="93.184.216.66")
    equal((r["port"], r["status"]), (80, 403), "an address")
    r = only(rows, kind="connect", address="93.184.216.66")
    equal((r["port"], r["scheme"]), (443, "https"), "an address, TLS")
    equal(only(rows, name="web.example", port=8080)["status"], 403, "a port")
    has(only(rows, kind="connect", port=443, name="web.example")["reason"], "SNI evil.example differs", "another SNI")
    equal(len(rows), 6, f"refusals: {rows}")
    r = only(records(server, s, allowed="false", name="web.example", kind="connect"), port=443)
    equal(r["verdict"], "deny", "asked for by its members")


def test_names(server):
    s = make(server, policy(*RULES))
    probe(server, s, "[dns('web.example'), dns('web.example', 28), dns('web.example', 65), dns('evil.example'), "
          "dns('web.example', 16), "
          "dns('Six.Example', over='tcp')]")
    rows = settled(server, s)
    for r in rows:
        equal(r["kind"], "dns", "kind")
        complete(r, "name", "type", "scheme")
    for kind in ("A", "AAAA", "HTTPS"):
        equal(only(rows, name="web.example", type=kind)["verdict"], "allow", kind)
    r = only(rows, name="evil.example")
    equal((r["verdict"], r["type"]), ("deny", "A"), "a name that does not exist")
    has(r["reason"], "evil.example is not allowed", "why")
    equal(only(rows, type="TXT")["verdict"], "deny", "TXT")
    equal(only(rows, name="six.example")["type"], "A", "by TCP")
    equal(len(rows), 6, "questions")


DATAGRAMS = """
def refused(family, to, n=1, data=b'hello'):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(5)
    s.connect(to)
    for _ in range(n):
        try:
            s.send(data)
            s.recv(1)
        except ConnectionRefusedError:
            pass
        except TimeoutError:
            return 'silence'
    return 'refused'
def own_server():
    s, c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('0.0.0.0', 7777))
    c.settimeout(5)
    c.connect(('203.0.113.9', 7777))
    c.send(b'ping')
    s.sendto(b'pong', s.recvfrom(9)[1])
    return c.recv(9).decode()
def flood():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for i in range(20000):
        s.sendto(b'x', ('198.51.100.%d' % (i % 200), 6000 + i % 7))
    return 'sent'
"""


def test_datagrams(server):
    """Refused at once, as before, and recorded: once for each destination and second."""
    s = make(server, policy(*RULES))
    got = probe(server, s, "[refused(socket.AF_INET, ('203.0.113.5', 443), 3), refused(socket.AF_INET, ('10.1.2.3', 9999)), "
                "refused(socket.AF_INET6, ('2001:db8::7', 443)), refused(socket.AF_INET, ('127.0.0.1', 9999)), own_server(), "
                "dns('web.example')[1]]", before=DATAGRAMS)
    equal(got[:5], ["refused"] * 4 + ["pong"], "what programs notice")
    sh(server, s, "python3 -c \"import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'no query', "
       "('203.0.113.6', 53))\"", 0)
    rows = recorded(server, s, lambda r: r.get("address") == "203.0.113.6", kind="datagram")
    rows = [r for r in settled(server, s) if r["kind"] == "datagram"]
    for r in rows:
        complete(r, "address", "port", "scheme", "reason", "datagrams", "bytes_out")
        equal((r["verdict"], r["scheme"], r["execution_id"]), ("deny", "udp", None), "members")
    equal(sorted({(r["address"], r["port"]) for r in rows}),
          [("10.1.2.3", 9999), ("2001:db8::7", 443), ("203.0.113.5", 443), ("203.0.113.6", 53)], "destinations")
    many = [r for r in rows if r["address"] == "203.0.113.5"]
    equal((sum(r["datagrams"] for r in many), sum(r["bytes_out"] for r in many)), (3, 15), "counts")
    equal(records(server, s, kind="datagram", allowed="true"), [], "none was allowed")
    env = {**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}
    said = subprocess.run([server.program, "net", s["id"], "--kind", "datagram"], env=env, check=True, timeout=20,
                          capture_output=True, text=True).stdout
    has(said, "deny  datagram - 10.1.2.3:9999", "the command line")


def test_a_flood_of_datagrams_is_bounded(server):
    s = make(server, policy(*RULES))
    began = time.monotonic()
    equal(probe(server, s, "flood()", before=DATAGRAMS), "sent", "the flood")
    recorded(server, s, lambda r: "address" not in r, kind="datagram", name="the record of further destinations")
    rows = [r for r in settled(server, s) if r["kind"] == "datagram"]
    seconds = time.monotonic() - began + 1
    check(len(rows) <= 33 * seconds, f"{len(rows)} records in {seconds} s")
    check(100 <= sum(r["datagrams"] for r in rows) <= 100 * (seconds + 1), f"{rows}")
    equal(probe(server, s, "dns('web.example')[0]"), probe(server, s, "dns('web.example')[0]"), "names resolve")


def test_exactly_once_under_load(server):
    s = make(server, policy(*RULES))
    probe(server, s, "many()", before="""
import threading
def one(t):
    s = connect('web.example', 80)
    for i in range(25):
        s.sendall(f'GET /n/{t}/{i} HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n'.encode())
        everything(s)
    s.close()
def many():
    threads = [threading.Thread(target=one, args=(t,)) for t in range(16)]
    for t in threads: t.start()
    for t in threads: t.join()
    return 1""")
    wait_for(lambda: len(records(server, s, kind="request")) >= 400, 10, "400 records")
    paths = [r["path"] for r in settled(server, s) if r["kind"] == "request"]
    equal(sorted(paths), sorted(f"/n/{t}/{i}" for t in range(16) for i in range(25)), "each request once")
    equal(len(internet.NET.hits), 400, "hits")
    use = wait_for(lambda: (u := server.get(s["id"])["usage"]["network"])["requests"] >= 400 and u, 5, "the count")
    equal(use["requests"], 400, "requests counted")
    total = sum(r.get("bytes_in", 0) for r in records(server, s))
    wait_for(lambda: server.get(s["id"])["usage"]["network"]["bytes_in"] >= total * 9 // 10, 5,
             f"bytes counted ({use}, {total})")


def test_usage(server):
    s = make(server, policy(*RULES))
    sh(server, s, "curl -sS -m 20 -o /dev/null 'http://web.example/huge?n=3000000'; "
       "head -c 2000000 /dev/zero | curl -sS -m 20 -T - http://web.example/echo", 0)
    r = recorded(server, s, lambda r: r.get("path") == "/huge")[0]
    check(3_000_000 <= r["bytes_in"] < 3_010_000, f"{r}")

    def used():
        now = server.get(s["id"])["usage"]["network"]
        return now["requests"] >= 2 and now["bytes_out"] >= 2_000_000 and now

    use = wait_for(used, 5, "usage")
    check(3_000_000 <= use["bytes_in"] < 3_020_000 and 2_000_000 <= use["bytes_out"] < 2_020_000, f"{use}")
    server.delete(s["id"])
    end = server.get(s["id"])["usage"]["network"]  # with what was still being counted
    check(end["requests"] == 2 and all(use[n] <= end[n] < use[n] + 10_000 for n in use), f"{use}, after its end {end}")
    check(len(records(server, s, kind="request")) == 2, "records after its end")


MODEL = {"name": "model", "host": "model.example", "class": "model", "methods": ["POST"], "paths": ["/v1/**"]}


def model_call(server, s, path, body):
    equal(curl(server, s, f"https://model.example{path}", "-H", "Content-Type: application/json", "-d",
               json.dumps(body))[1], 200, path)


def test_model_calls(server):
    s = make(server, policy(MODEL))
    question = [{"role": "user", "content": "two and two, privately?"}]
    for stream, tokens in ((False, {"/v1/chat/completions": (11, 7), "/v1/messages": (13, 5)}),
                           (True, {"/v1/chat/completions": (21, 9), "/v1/messages": (23, 8)})):
        for path, model in (("/v1/chat/completions", "gpt-small"), ("/v1/messages", "claude-small")):
            body = {"model": model, "messages": question, "stream": stream, "max_tokens": 9}
            if stream and "chat" in path:
                body["stream_options"] = {"include_usage": True}
            model_call(server, s, path, body)
            r = recorded(server, s, lambda r: r.get("path") == path and r["model"].get("stream", False) == stream)[0]
            complete(r, *REQUEST)
            m = r["model"]
            equal((m["model"], m["input_tokens"], m["output_tokens"]), (model, *tokens[path]), f"{path} {stream}: {m}")
            equal(m["provider"], "openai" if "chat" in path else "anthropic", f"{m}")
            check("prompt" not in m and "completion" not in m and "privately" not in str(r),
                  f"prompts that were not to be recorded: {r}")
            equal((r["class"], r["status"]), ("model", 200), "class")
            if stream:
                check(0 <= m["first_token_ms"] * 1000 <= r["us"], f"latency: {r}")
    put(server, s, policy({**MODEL, "prompts": True}))
    model_call(server, s, "/v1/chat/completions", {"model": "gpt-small", "messages": question})
    r = recorded(server, s, lambda r: "privately" in str(r.get("model", {}).get("prompt")))[0]
    has(str(r["model"]["completion"]), "four", "the completion, where it is asked for")


VALUE = "v4lue-of-a.secret-" + "0123456789" * 9  # longer than the name of a model in a record, and than a path in a reason


def echoing(q):
    """Says what it was asked: in pieces of three bytes, each an event."""
    said = json.loads(q.body)["messages"][0]["content"][-1000:]
    events = [{"choices": [{"index": 0, "delta": {"content": said[i:i + 3]}}]} for i in range(0, len(said), 3)]
    body = "".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


ASK = r"""
import json, os, sys, urllib.request
before, model = int(sys.argv[1]), sys.argv[2].replace("VALUE", os.environ["GIVEN"])
text = "x" * before + os.environ["GIVEN"] + " and " + json.dumps(os.environ["GIVEN"] + chr(10))
body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": text}]}).encode()
context = __import__("ssl").create_default_context()
asked = urllib.request.Request("https://model.example/v1/chat/completions", body, {"Content-Type": "application/json"})
urllib.request.urlopen(asked, context=context, timeout=20).read()
"""


def given(server, name, rules):
    server.want(201, "POST", "/v1/secrets", {"name": name, "value": VALUE, "ways": ["env"]})
    return make(server, policy(*rules), secrets=[{"name": name, "as": "env", "env": "GIVEN"}])


def test_prompts_have_no_values(server):
    """Of a prompt and of a completion that comes in pieces; of both where they are cut; in the name of a model, which is cut as well."""
    s = given(server, "prompted", [{**MODEL, "prompts": True}])
    internet.NET.sites.handlers["model.example"] = echoing
    try:
        # 262,144 bytes are kept, "user: " among them: the last ones are in the middle of the value
        for before, model in ((0, "m"), (262144 - 6 - 40, "m"), (0, "VALUE")):
            seen = len(records(server, s, kind="request"))
            done = server.run(s["id"], ["python3", "-c", ASK, str(before), model])
            equal(done["exit_code"], 0, done["stderr"][-800:])
            r = wait_for(lambda seen=seen: records(server, s, kind="request")[seen:], 10, "the record")[0]["model"]
            check(VALUE[:12] not in json.dumps(r), f"the value: {str(r)[-3000:]}")
            check("*" * 40 in r["prompt"] and "*" * 40 in r["completion"], f"no mask: {str(r)[-3000:]}")
            check(before - 4096 <= r["prompt"].count("x") <= before, f"{r['prompt'].count('x')} bytes of {before} are there")
            equal(r.get("prompt_cut", False), before > 0, "cut")
            check(r["model"] == model or set(r["model"]) == {"*"}, r["model"])
    finally:
        internet.NET.sites.handlers.pop("model.example")
    server.delete(s["id"])
    server.want(204, "DELETE", "/v1/secrets/prompted")


def test_reasons_have_no_parts_of_values(server):
    """A reason names the path that was refused as far as there is room: here up to the middle of the value."""
    s = given(server, "refused", RULES)
    for start in ("/shut/", "/shut/" + "x" * 40, "/shut/?q="):
        sh(server, s, f'curl -sS -o /dev/null "https://look.example{start}$GIVEN"', 0)
    rows = wait_for(lambda: len(x := [r for r in records(server, s, kind="request") if r["verdict"] == "deny"]) == 3 and x, 10, "three refusals")
    for r in rows:
        check(VALUE[:8] not in json.dumps(r), f"a part of the value: {r}")
    check(any("/shut/" + "x" * 40 + "***" in r["reason"] for r in rows), f"{[r['reason'] for r in rows]}")
    server.delete(s["id"])
    server.want(204, "DELETE", "/v1/secrets/refused")


def cordon(server, *words, **how):
    env = {**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}
    return subprocess.run([server.program, *words], env=env, capture_output=True, text=True, timeout=30, check=True,
                          **how).stdout


def test_command_line(server):
    s = make(server, policy(*RULES))
    curl(server, s, "http://web.example/echo?a=b")
    curl(server, s, "https://look.example/shut")
    curl(server, s, "http://evil.example/")
    settled(server, s)
    lines = cordon(server, "net", s["id"]).splitlines()
    check(any(re.search(r" allow +request +GET http://web\.example/echo\?a=b 200 .* web", v) for v in lines),
          f"{lines}")
    check(any(re.search(r" deny +request +GET https://look\.example/shut 403 .*not allowed", v) for v in lines),
          f"{lines}")
    check(any(re.search(r" deny +dns +A evil\.example .*not allowed", v) for v in lines), f"{lines}")
    equal(len(lines), len(records(server, s)), "a line for each")
    denied = cordon(server, "net", "--denied", s["id"]).splitlines()
    equal(len(denied), len(records(server, s, allowed="false")), "--denied")
    equal([json.loads(v)["seq"] for v in cordon(server, "net", "--json", s["id"]).splitlines()],
          [r["seq"] for r in records(server, s)], "--json")


def test_followed_by_the_command_line(server):
    s = make(server, policy(*RULES))
    env = {**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key}
    with subprocess.Popen([server.program, "net", "-f", "--kind", "request", s["id"]], env=env, stdout=subprocess.PIPE,
                          text=True) as live:
        try:
            for path in ("/first", "/second"):
                curl(server, s, f"http://web.example{path}")
                began = time.monotonic()
                has(live.stdout.readline(), path, "the next line")
                check(time.monotonic() - began < 8, "a live line takes long")
        finally:
            live.kill()


def test_records_of_other_sessions_are_not_shown(server):
    _, key = server.tenant("others")
    s = make(server, policy(*RULES))
    curl(server, s, "http://web.example/mine")
    recorded(server, s, lambda r: r.get("path") == "/mine")
    equal(server.request("GET", f"/v1/sessions/{s['id']}/network/log", key=key)[0], 404, "another tenant")
    other = make(server, policy(*RULES))
    equal(records(server, other), [], "another session")


if __name__ == "__main__":
    internet.enter()
    internet.run_tests(globals(), pool_size=2)

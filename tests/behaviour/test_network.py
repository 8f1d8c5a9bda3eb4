#!/usr/bin/python3 -B
"""test_network.py - a cell has loopback and nothing else; everything that leads out is refused at once."""
import os
import secrets
import socket
import subprocess

import tap
from level import PATIENCE, differs
from tap import Skip, check, equal, has, python, run, start

OUTSIDE = [
    ("1.1.1.1", 80),
    ("8.8.8.8", 53),
    ("169.254.169.254", 80),
    ("10.0.0.1", 22),
    ("192.168.0.1", 443),
    ("172.17.0.1", 2375),
    ("100.64.0.1", 1),
    ("203.0.113.7", 65535),
    ("127.0.0.1", 1),
    ("127.9.9.9", 9),
]
OUTSIDE6 = [("2606:4700:4700::1111", 443), ("fd00::1", 80), ("::1", 1), ("2001:db8::1", 22), ("64:ff9b::1.1.1.1", 80)]

CONNECT = (
    "import errno,socket,sys\n"
    "for word in sys.argv[2:]:\n"
    "    host, _, port = word.rpartition(' ')\n"
    "    s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, getattr(socket, sys.argv[1]))\n"
    "    try:\n"
    "        s.connect((host, int(port)))\n"
    "        s.send(b'x'); s.settimeout(5); s.recv(1)\n"
    "        print(word, 'CONNECTED')\n"
    "    except OSError as e: print(word, errno.errorcode.get(e.errno, repr(e)))\n"
)


def have_ipv6():
    return os.path.exists("/proc/net/if_inet6")


def connect(kind, places, *options):
    words = [f"{host} {port}" for host, port in places]
    d = run(*options, cmd=["/usr/bin/python3", "-c", CONNECT, kind, *words]).exits(0)
    return dict(line.rsplit(" ", 1) for line in d.text.splitlines())


def own_addresses():
    """Addresses of the machine itself, by which its services could be reached."""
    out = subprocess.run(["hostname", "-I"], capture_output=True, text=True, timeout=20).stdout.split()
    return [(a, 22) for a in out if ":" not in a or not a.startswith("fe80")]


def test_tcp_to_anywhere_is_refused():
    for options in ([], ["--user", "root"], ["--profile", "locked"]):
        places = OUTSIDE + own_addresses() + (OUTSIDE6 if have_ipv6() else [])
        got = connect("SOCK_STREAM", places, *options)
        equal(len(got), len(places))
        if differs("no network access"):
            check(set(got.values()) <= {"ECONNREFUSED", "ECONNRESET"}, got)
            equal(got["127.9.9.9 9"], "ECONNREFUSED", "loopback")
        else:
            equal(set(got.values()), {"ECONNREFUSED"}, got)


def test_udp_to_anywhere_is_refused():
    got = connect("SOCK_DGRAM", [p for p in OUTSIDE if p[1] != 53] + (OUTSIDE6 if have_ipv6() else []))
    equal(set(got.values()), {"ECONNREFUSED"}, got)
    d = python("import socket; s = socket.socket(2, 2); s.settimeout(2); s.connect(('8.8.8.8', 53)); s.send(b'x'); s.recv(1)").exits(1)
    has(d.errors, "timed out" if differs("no network access") else "refused", "what is no query")


def test_a_listener_of_the_machine_is_out_of_reach():
    with socket.create_server(("0.0.0.0", 0)) as server, socket.socket(socket.AF_UNIX) as unix:
        port = server.getsockname()[1]
        name = "cordon-" + secrets.token_hex(6)
        unix.bind("\0" + name)
        unix.listen()
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass  # it does answer here
        got = connect("SOCK_STREAM", [("127.0.0.1", port)] + [(a, port) for a, _ in own_addresses()])
        equal(got.pop(f"127.0.0.1 {port}"), "ECONNREFUSED")
        equal(set(got.values()), {"ECONNRESET" if differs("no network access") else "ECONNREFUSED"}, got)
        d = python(f"import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')")
        check(d.rc == 1 and "refused" in d.errors.lower(), f"abstract socket: {d.rc} {d.errors}")


def test_names_do_not_resolve():
    code = (
        "import socket, time\n"
        "began = time.monotonic()\n"
        "for n in ('example.com', 'localhost.example.com', 'metadata.google.internal', 'a' * 60 + '.test'):\n"
        "    try: print(n, socket.getaddrinfo(n, 80))\n"
        "    except socket.gaierror as e: print('none')\n"
        "print(time.monotonic() - began)\n"
    )
    *lines, took = python(code).exits(0).text.splitlines()
    equal(lines, ["none"] * 4)
    check(float(took) < 2 * PATIENCE, f"told after {took} s")


def test_own_names_resolve():
    code = "import socket\nfor n in ('localhost', socket.gethostname()): print(sorted({a[4][0] for a in socket.getaddrinfo(n, 80)}))"
    lines = python(code).exits(0).text.splitlines()
    equal(len(lines), 2)
    for line in lines:
        has(line, "127.0.0.1")


def test_only_loopback_is_there():
    d = run("--user", "root", cmd="cat /proc/net/dev; cat /proc/net/route; cat /proc/net/arp")
    devices = [line.split(":")[0].strip() for line in d.exits(0).text.splitlines() if ":" in line]
    equal(devices, ["lo"])


SERVE = (
    "import socket,sys,threading\n"
    "family, host = (socket.AF_INET6, '::1') if sys.argv[1] == '6' else (socket.AF_INET, '127.0.0.1')\n"
    "s = socket.socket(family); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
    "s.bind(('', int(sys.argv[2]))); s.listen()\n"
    "def serve():\n"
    "    c, _ = s.accept(); c.sendall(c.recv(100)[::-1]); c.close()\n"
    "threading.Thread(target=serve).start()\n"
    "c = socket.create_connection((host, int(sys.argv[2])), 10); c.sendall(b'abc'); print(c.recv(100).decode())\n"
)


def test_a_server_on_port_80():
    for options in ([], ["--profile", "locked"], ["--user", "root"], ["--user", "nobody"]):
        for family in ("4", "6") if have_ipv6() else ("4",):
            d = run(*options, cmd=["/usr/bin/python3", "-c", SERVE, family, "80"])
            equal(d.exits(0).text, "cba\n", (options, family))
    if not have_ipv6():
        raise Skip("no IPv6 on this machine; IPv4 works")


def test_every_address_leads_to_the_cell_itself():
    code = (
        "import socket,threading\n"
        "s = socket.create_server(('0.0.0.0', 8080))\n"
        "threading.Thread(target=lambda: [s.accept()[0].sendall(b'me') for _ in range(2)], daemon=True).start()\n"
        "for a in ('1.1.1.1', '169.254.169.254'):\n"
        "    print(socket.create_connection((a, 8080), 10).recv(10).decode())\n"
    )
    if differs("no network access"):
        has(python(code).exits(1).errors, "ConnectionResetError")
        code = code.replace("1.1.1.1", "127.1.1.1").replace("169.254.169.254", "127.0.0.1")
    equal(python(code).exits(0).text, "me\nme\n")


def test_two_cells_use_one_port():
    code = (
        "import socket,sys\n"
        "s = socket.create_server(('0.0.0.0', 8080)); print('ready', flush=True); sys.stdin.read()\n"
    )
    cells = [start(cmd=["/usr/bin/python3", "-c", code], stdin=subprocess.PIPE) for _ in range(2)]
    for p in cells:
        equal(p.stdout.readline(), b"ready\n")
    got = connect("SOCK_STREAM", [("127.0.0.1", 8080)])
    equal(got, {"127.0.0.1 8080": "ECONNREFUSED"}, "from a third one")
    try:
        socket.create_connection(("127.0.0.1", 8080), 1).close()
        reached = True
    except OSError:
        reached = False
    for p in cells:
        tap.finish(p, b"").exits(0)
    check(not reached, "a listener of a cell can be reached from the machine")


def test_odd_sockets_are_refused():
    code = (
        "import errno,socket\n"
        "for f, t, p in ((socket.AF_PACKET, socket.SOCK_RAW, 3), (socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_VSOCK, socket.SOCK_STREAM, 0),"
        " (socket.AF_ALG, socket.SOCK_SEQPACKET, 0), (socket.AF_BLUETOOTH, socket.SOCK_RAW, 1)):\n"
        "    try: socket.socket(f, t, p); print('MADE', f)\n"
        "    except OSError as e: print(errno.errorcode[e.errno])\n"
    )
    got = python(code, "--user", "root").exits(0).text.split()
    check(len(got) == 5 and set(got) <= {"EAFNOSUPPORT", "EPERM", "EACCES", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT"}, got)


if __name__ == "__main__":
    tap.main(globals())

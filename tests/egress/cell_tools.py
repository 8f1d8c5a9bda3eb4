"""cell_tools.py - what tests do inside a cell, with plain sockets. Its text is the beginning of programs that
are run there (probe() of internet_client.py): each gives what it found as one line of JSON."""
import json
import socket
import ssl
import struct
import time

PROXY = ("198.18.0.1", 3128)
RESOLVER = "198.18.0.1"


def connect(host, port, seconds=8):
    for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        s = socket.socket(info[0], socket.SOCK_STREAM)
        s.settimeout(seconds)
        s.connect(info[4])
        return s
    raise OSError("no address")


def everything(s, most=1 << 20):
    got = b""
    try:
        while len(got) < most:
            data = s.recv(65536)
            if not data:
                return got.decode("latin-1") + ""
            got += data
            head, found, body = got.partition(b"\r\n\r\n")
            if found and b"content-length: " in head.lower():
                n = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                if len(body) >= n:
                    return got.decode("latin-1")
    except OSError as e:
        return got.decode("latin-1") + f"!{type(e).__name__}"
    return got.decode("latin-1")


def name_of(e):
    return f"!{type(e).__name__}: {e}"


def usual(address):
    """In its usual form, as libc understands it: so that only the address itself is left to refuse."""
    try:
        return socket.getaddrinfo(address, 80, type=socket.SOCK_STREAM)[0][4][0]
    except OSError:
        return address


def raw(host, port, text, seconds=8):
    """Sends bytes and gives what came, or "!WHY"."""
    try:
        s = connect(host, port, seconds)
        s.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
        return everything(s)
    except OSError as e:
        return name_of(e)


def get(host, path="/echo", more="", port=80, at=None, seconds=8):
    at, host = at or host, f"[{host}]" if host.count(":") > 1 and host[0] != "[" else host
    return raw(at, port, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n", seconds)


def tls(host, sni, text=None, port=443, alpn=None, cafile=None, sock=None, check=True, tweak=None):
    try:
        c = ssl.create_default_context(cafile=cafile)
        if not check:
            c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
        if alpn:
            c.set_alpn_protocols(alpn)
        if sni is None:
            c.check_hostname = False
        if tweak:
            tweak(c)
        s = c.wrap_socket(sock or connect(host, port), server_hostname=sni)
        if text is None:
            return f"shaken {s.selected_alpn_protocol()}"
        s.sendall(text.encode("latin-1"))
        return everything(s)
    except (OSError, ValueError) as e:
        return name_of(e)


def tls_get(host, path="/echo", more="", **how):
    return tls(how.pop("at", host), how.pop("sni", host), f"GET {path} HTTP/1.1\r\nHost: "
               f"{how.pop('header', host)}\r\n{more}\r\n", **how)


def proxied(target, *behind):
    """CONNECT, then bytes; (head of the proxy's answer, the rest)."""
    s = connect(*PROXY)
    s.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode("latin-1"))
    got = b""
    while b"\r\n\r\n" not in got:
        data = s.recv(65536)
        if not data:
            break
        got += data
    return s, got.decode("latin-1")


def question(labels, kind=1, flags=0x100, ident=7, klass=1):
    if isinstance(labels, str):
        labels = [p.encode("latin-1") for p in labels.split(".")]
    name = b"".join(bytes([len(p)]) + p for p in labels) + b"\0"
    return struct.pack("!HHHHHH", ident, flags, 1, 0, 0, 0) + name + struct.pack("!HH", kind, klass)


def dns(labels, kind=1, server=RESOLVER, port=53, seconds=3, source=0, over="udp"):
    """(rcode, number of answers, last 4 or 16 bytes as an address) or "!WHY"."""
    query = question(labels, kind)
    try:
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        s = socket.socket(family, socket.SOCK_STREAM if over == "tcp" else socket.SOCK_DGRAM)
        s.settimeout(seconds)
        if source:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("", source))
        s.connect((server, port))
        s.sendall(struct.pack("!H", len(query)) + query if over == "tcp" else query)
        got = s.recv(4096)
        if over == "tcp":
            n = struct.unpack("!H", got[:2])[0]
            got = got[2:]
            while len(got) < n:
                got += s.recv(4096)
        flags, _, answers = struct.unpack_from("!HHH", got, 2)
        return [flags & 15, answers, got.hex()]
    except OSError as e:
        return name_of(e)


def udp(host, port, data=b"x", seconds=1):
    """What comes back, or "!WHY"."""
    try:
        s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(seconds)
        s.connect((host, port))
        s.send(data)
        time.sleep(0.05)  # an error that the first datagram caused is reported by the second send
        s.send(data)
        return s.recv(4096).decode("latin-1")
    except OSError as e:
        return name_of(e)


def shown(value):
    print(json.dumps(value))


def hello(sni=None, extra=()):
    """A ClientHello of TLS 1.3, written by hand. sni: bytes as they are; extra: [(type, bytes)]."""
    parts = [(43, b"\2\3\4"), (10, b"\0\2\0\x1d"), (13, b"\0\2\4\3"), (51, b"\0\x24\0\x1d\0\x20" + b"\7" * 32)]
    if sni is not None:
        parts.insert(0, (0, struct.pack("!HBH", len(sni) + 3, 0, len(sni)) + sni))
    body = b"".join(struct.pack("!HH", t, len(d)) + d for t, d in parts + list(extra))
    inner = b"\3\3" + b"\5" * 32 + b"\0" + b"\0\2\x13\1" + b"\1\0" + struct.pack("!H", len(body)) + body
    shake = b"\1" + struct.pack("!I", len(inner))[1:] + inner
    return b"\x16\3\1" + struct.pack("!H", len(shake)) + shake


def outcome(text):
    """What TLS bytes mean: "hello" (a server answered the handshake), "alert N", or what happened."""
    data = text.encode("latin-1")
    if data[:1] == b"\x16":
        return "hello"
    return f"alert {data[6]}" if data[:1] == b"\x15" and len(data) > 6 else text


def by_proxy(target, path="/echo", host=None):
    """In every way that the explicit proxy has: absolute form, and a tunnel with plain HTTP in it."""
    out = [raw(*PROXY, f"GET http://{target}{path} HTTP/1.1\r\nHost: {host or target}\r\n\r\n")]
    try:
        ported = target.rpartition(":")[2].isdigit() and not target.endswith("]")
        s, head = proxied(target if ported else target + ":80")
        if " 200 " in head.split("\r\n")[0]:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host or target}\r\n\r\n".encode("latin-1"))
            out.append("tunnel " + everything(s))
        else:
            out.append(head)
    except OSError as e:
        out.append(name_of(e))
    return out

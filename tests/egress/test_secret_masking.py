#!/usr/bin/python3
"""What a cell sees of secrets in answers: whole values are covered, wherever they are cut; a guess of a part changes
nothing that can be seen; servers that can know a value are asked for no parts and no compression; others are left alone;
and a masked stream does not delay others."""

import base64
import gzip
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from egress_harness import Egress
from http_client import ask, read_response
from namespaces import Net
from origin_server import Origin, Reader, answer
from tap_points import Tap
from ws_frames import WS_HEAD, frame, read_frame, websocket

SECRET = "sk-proj-9fQ2xLmZ7TbKw0aRVd4U"
FREE = "free-4pQs81kdLLz0vRt6"
PLACEHOLDER = "cordon_" + "A" * 32
COVER = "*" * len(SECRET)

tap = Tap()


def get(path, host, more=""):
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def echo(request):
    """Each chunk of the request comes back as one, as soon as it is there."""
    request.conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while line := request.reader.until(b"\r\n"):
        data = request.reader.exactly(int(line, 16) + 2)[:-2]
        request.conn.sendall(chunk(data))
    return None


def parts(request):
    """A value in two parts, in a framing; ?pause: the second comes late."""
    path = request.line.split(" ")[1]
    kind, cut = path.split("/")[2:4]
    first, second = SECRET[:int(cut.split("?")[0])].encode(), SECRET[int(cut.split("?")[0]):].encode() + b"\n"
    head, frames = {
        "length": (f"Content-Length: {1 + len(first) + len(second)}", lambda d: d),
        "chunks": ("Transfer-Encoding: chunked", chunk),
        "close": ("Connection: close", lambda d: d)}[kind]
    request.conn.sendall(f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode() + frames(b"~" + first))
    if "pause" in path:
        time.sleep(0.4)  # longer than the mask holds bytes back
    request.conn.sendall(frames(second) + (chunk(b"") if kind == "chunks" else b""))
    return None if kind == "close" else b""


def flood(request):
    request.conn.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        request.conn.sendall(b"a" * 65536)


def serve(request):
    path = request.line.split(" ")[1]
    if path == "/ws":
        return websocket(request)
    if path.startswith("/to/"):
        return answer(b"", "301 Moved", ("Location: https://www.example" + path[3:],))
    if path.startswith("/parts/"):
        return parts(request)
    if path == "/echo":
        return echo(request)
    if path == "/flood":
        return flood(request)
    if path == "/stored":
        return answer(f"value={SECRET} {FREE}\n".encode())
    if path == "/206":
        return answer(SECRET[:10].encode(), "206 Partial Content", ("Content-Range: bytes 0-9/28",))
    if path == "/byteranges":
        return answer(b"x", headers=("Content-Type: Multipart/Byteranges; boundary=x",))
    if path == "/gzip":
        return answer(gzip.compress(SECRET.encode()), headers=("Content-Encoding: gzip",))
    return answer(b"ok")


class World:
    def __init__(self):
        self.net = net = Net()
        names = {"api": "93.184.216.34", "www": "93.184.216.35", "free": "93.184.216.36", "quiet": "93.184.216.37"}
        self.plain, self.tls = {}, {}
        for name, ip in names.items():
            net.name(f"{name}.example", ip)
            self.plain[name] = Origin(net, ip, 80, serve, whole=False)
            self.tls[name] = Origin(net, ip, 443, serve, tls=net.certificate(f"{name}.example"), whole=False)


POLICY = {"rules": [
    {"host": "api.example"}, {"host": "www.example"},
    {"host": "free.example", "paths": ["/put"], "set_headers": {"Authorization": "Bearer ${secret.free}"}},
    {"host": "free.example"}]}
SECRETS = [{"name": "tok", "value": SECRET, "placeholder": PLACEHOLDER, "hosts": ["api.example"]},
           {"name": "free", "value": FREE}]


def guesses(known):
    """A right and a wrong one of that many characters."""
    wrong = SECRET[:known - 1] + ("a" if SECRET[known - 1] != "a" else "b")
    return SECRET[:known], wrong


def test_redirects(cell):
    """A server that repeats the path: the bound one itself, by TLS and without."""
    for s in (cell.tls("api.example"), cell.connect("api.example", 80)):
        reader, shown, marked = Reader(s), [], []
        for known in range(1, len(SECRET)):
            for guess in guesses(known):
                s.sendall(get("/to/" + guess, "api.example").encode())
                r = read_response(reader)
                shown.append(r.get("Location") == "https://www.example/" + guess)
                marked.append(len(r.headers))
        tap.ok(all(shown) and len(set(marked)) == 1, "a guess of a part comes back as it is, right or wrong", shown)
        s.sendall(get("/to/" + SECRET, "api.example").encode())
        tap.same(read_response(reader).get("Location"), "https://www.example/" + COVER, "the whole value does not")
        s.close()
    r = ask(cell.connect("www.example", 80), get("/to/" + SECRET, "www.example"))
    tap.same(r.get("Location"), "https://www.example/" + SECRET, "a server that cannot know it is not masked")
    r = cell.record(lambda r: r.get("masked"))
    tap.ok(r and r["masked"] == 1 and r["name"] == "api.example" and SECRET not in str(cell.records),
           "what was covered is counted on record", r)


def read_chunk(reader):
    n = int(reader.until(b"\r\n"), 16)
    return reader.exactly(n + 2)[:-2]


def test_echo(cell):
    """A stream that is echoed: a guess comes back in one piece, right or wrong, without anything that follows it."""
    s = cell.tls("api.example")
    s.sendall(b"POST /echo HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: chunked\r\n\r\n")
    reader = Reader(s)
    reader.until(b"\r\n\r\n")
    same = True
    for known in range(1, len(SECRET)):
        for guess in guesses(known):
            for text in (f"~{guess}\n", base64.b64encode(guess.encode()).decode() + "\n"):
                s.sendall(chunk(text.encode()))
                same = same and read_chunk(reader) == text.encode()
    tap.ok(same, "an echoed guess comes back whole, right or wrong")
    waits = []
    for guess in guesses(12):  # the end of a word waits longer, and as long for both
        begin = time.monotonic()
        s.sendall(chunk(guess.encode()))
        same = same and read_chunk(reader) == guess.encode()
        waits.append(time.monotonic() - begin)
    tap.ok(same and min(waits) > 1.5, "and so does one without an end, later", waits)
    s.sendall(chunk(b"~" + SECRET.encode() + b"\n"))
    tap.same(read_chunk(reader), b"~" + COVER.encode() + b"\n", "the value does not")
    s.close()


def test_cuts(cell):
    """Cut anywhere, also where the server pauses: nothing of it is seen."""
    bad = []
    for kind in ("length", "chunks", "close"):
        for cut in range(len(SECRET) + 1):
            s = cell.connect("api.example", 80) if kind == "close" else cell.tls("api.example")
            r = ask(s, get(f"/parts/{kind}/{cut}", "api.example"))
            if r.body != b"~" + COVER.encode() + b"\n":
                bad.append((kind, cut, r.body))
            s.close()
    tap.same(bad, [], "a value that is cut is covered")
    for kind in ("length", "chunks", "close"):
        r = ask(cell.connect("api.example", 80), get(f"/parts/{kind}/14?pause", "api.example"))
        tap.same(r.body, b"~" + COVER.encode() + b"\n", f"also by a pause ({kind})")


def test_a_change_inside_a_value(cell):
    """The beginning of a value was given out when the session's secrets change: the rest is covered."""
    more = {"name": "other", "value": "another-value-0123456789", "placeholder": "cordon_" + "B" * 32, "hosts": ["api.example"]}
    s = cell.tls("api.example")
    s.sendall(b"POST /echo HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: chunked\r\n\r\n")
    reader = Reader(s)
    reader.until(b"\r\n\r\n")
    s.sendall(chunk(b"~" + SECRET[:14].encode()))
    first = read_chunk(reader)
    cell.change(POLICY, [*SECRETS, more])
    s.sendall(chunk(SECRET[14:].encode() + b"\n"))
    tap.same((first, read_chunk(reader)), (b"~" + SECRET[:14].encode(), b"*" * len(SECRET[14:]) + b"\n"),
             "the rest of a value behind a change")
    s.close()
    cell.change(POLICY, SECRETS)


def test_websocket(cell):
    s = cell.tls("api.example")
    s.sendall(get("/ws", "api.example", WS_HEAD).encode())
    reader = Reader(s)
    reader.until(b"\r\n\r\n")
    tap.same(read_frame(reader)[3], b"hello", "a message does not wait for the next")
    begin = time.monotonic()
    for key in b"typed":
        s.sendall(frame(bytes([key]), key=b"abcd"))
        if read_frame(reader)[3] != b"<%c>" % key:
            break
    else:
        tap.ok(time.monotonic() - begin < 5, "nor do single characters", time.monotonic() - begin)
    shown = []
    for known in range(1, len(SECRET)):
        for guess in guesses(known):
            s.sendall(frame(guess.encode(), key=b"abcd"))
            shown.append(read_frame(reader)[3] == b"<" + guess.encode() + b">")
    tap.ok(all(shown), "guesses come back as they are")
    s.sendall(frame(SECRET.encode(), key=b"abcd"))
    tap.same(read_frame(reader)[3], b"<" + COVER.encode() + b">", "the value does not")
    s.close()


RANGES = ("Range: bytes=0-4\r\nRequest-Range: bytes=0-4\r\nx-ms-range: bytes=0-4\r\nIf-Range: x\r\n"
          "Accept-Encoding: gzip, br\r\nContent-Range: bytes 0-4/5\r\n")


def test_no_parts(w, cell):
    """By any rule: one may put it in, another asks for what was stored."""
    for name in ("api", "free"):
        host = f"{name}.example"
        r = ask(cell.tls(host), get("/stored", host, RANGES))
        got = w.tls[name].requests[-1]
        names = sorted(n.lower() for n, _ in got.headers if "range" in n.lower())
        tap.same((names, got.all("Accept-Encoding")), (["content-range"], ["identity"]),
                 f"{host} is asked for all of it, as it is")
        hidden, other = (SECRET, FREE) if name == "api" else (FREE, SECRET)
        tap.ok(hidden.encode() not in r.body and other.encode() in r.body, "and what it can know is covered", r.body)
        for path in ("/206", "/byteranges", "/gzip"):
            r = ask(cell.tls(host), get(path, host))
            tap.same(r.status, 502, f"{path} of {host} is refused")
    ask(cell.connect("www.example", 80), get("/stored", "www.example", RANGES))
    got = w.plain["www"].requests[-1]
    tap.same((got.get("Range"), got.get("Accept-Encoding")), ("bytes=0-4", "gzip, br"), "others get what was asked for")
    r = ask(cell.connect("www.example", 80), get("/206", "www.example"))
    tap.same(r.status, 206, "and may answer with a part")


def test_changes(cell):
    """A value that was replaced stays covered where the secret goes, and nowhere else."""
    new = [{"name": "tok", "value": "another-value-entirely", "placeholder": PLACEHOLDER, "hosts": ["api.example"]}]
    cell.change(POLICY, new, [{"value": SECRET, "name": "tok", "hosts": ["api.example"]},
                              {"value": FREE, "name": "free", "hosts": []}])
    r = ask(cell.connect("api.example", 80), get("/stored", "api.example"))
    tap.same(r.body, f"value={COVER} {FREE}\n".encode(), "an old value is covered where it is bound")
    r = ask(cell.connect("free.example", 80), get("/stored", "free.example"))
    tap.same(r.body, f"value={SECRET} {'*' * len(FREE)}\n".encode(), "or where a rule names it")


def test_after_the_rule(w, cell):
    """A server that was sent a value knows it, also when no rule sends it there any more."""
    cell.change(POLICY, SECRETS)
    ask(cell.tls("free.example"), get("/put", "free.example"))
    tap.same(w.tls["free"].requests[-1].get("Authorization"), f"Bearer {FREE}", "a rule puts the value in")
    cell.change({"rules": [{"host": "*.example"}]}, SECRETS[:1], [{"value": FREE, "name": "free", "hosts": []}])
    for name, shown in (("free", "*" * len(FREE)), ("www", FREE)):
        r = ask(cell.connect(f"{name}.example", 80), get("/stored", f"{name}.example"))
        tap.same(r.body, f"value={SECRET} {shown}\n".encode(), f"without the rule, at {name}.example")


def stream(cell, host):
    s = cell.connect(host, 80)
    s.sendall(get("/flood", host).encode())
    try:
        while s.recv(262144):
            pass
    except OSError:
        pass


def test_neighbours(egress):
    """Values and a stream made to be slow: other sessions are answered meanwhile."""
    policy = {"rules": [{"host": "*.example"}]}
    bad = egress.cell(policy, [{"name": f"s{i}", "value": "a" * 20000 + f"{i:04d}", "hosts": ["www.example"]}
                               for i in range(32)])
    good = egress.cell(policy)
    for _ in range(4):
        threading.Thread(target=stream, args=(bad, "www.example"), daemon=True).start()
    s = good.connect("quiet.example", 80)
    reader, waits = Reader(s), []
    end = time.monotonic() + 3
    while time.monotonic() < end:
        begin = time.monotonic()
        s.sendall(get("/", "quiet.example").encode())
        read_response(reader)
        waits.append(time.monotonic() - begin)
        time.sleep(0.005)  # a program that sends a request now and then
    waits.sort()
    print(f"# {len(waits)} requests beside 4 masked streams: median {waits[len(waits) // 2] * 1000:.1f} ms, "
          f"most {waits[-1] * 1000:.1f} ms")
    tap.ok(len(waits) >= 20, "another session is answered beside masked streams", waits)
    bad.detach()
    good.detach()


def test_by_address(w, egress):
    """The bound server, reached by its address with its name in Host or SNI, is masked as by its name."""
    address = "93.184.216.34"
    cell = egress.cell({"default": "allow", "rules": []}, SECRETS)
    r = ask(cell.connect(address, 80), get("/stored", "api.example"))
    tap.ok(r and SECRET.encode() not in r.body and COVER.encode() in r.body, "by address, with Host", r and r.body)
    r = ask(cell.tls(address, sni="api.example"), get("/stored", "api.example"))
    tap.ok(r and SECRET.encode() not in r.body and COVER.encode() in r.body, "by address, with SNI", r and r.body)
    r = ask(cell.connect("93.184.216.35", 80), get("/stored", "www.example"))
    tap.ok(r and SECRET.encode() in r.body, "another server is not masked", r and r.body)
    r = ask(cell.connect(address, 80), get("/stored", "x.example"))
    tap.ok(r and SECRET.encode() in r.body, "a server known by its address alone is not masked at first", r and r.body)
    ask(cell.tls("api.example"), get("/", "api.example", f"Authorization: Bearer {PLACEHOLDER}\r\n"))
    r = ask(cell.connect(address, 80), get("/stored", "x.example"))
    tap.ok(r and SECRET.encode() not in r.body, "an address that a secret was sent to is masked", r and r.body)
    cell.detach()


def test_records(egress):
    """Values are covered in the texts of a record, whatever they are, and the record stays what it is."""
    now = str(int(time.time() * 1000))
    for value in ("time_ms", "request", "verdict", "bytes_in", now[:6], ':"deny"', '.example"', '"ab/cde"', "c:\\dir\\"):
        cell = egress.cell({"rules": [{"host": "www.example"}]}, [{"name": "pin", "value": value, "hosts": ["api.example"]}])
        path = "/?q=" + "".join("%%%02X" % c for c in value.encode())
        ask(cell.connect("www.example", 80), get(path, "www.example"))
        r = cell.record(lambda r: r["kind"] == "request")
        tap.ok(r and r["name"] == "www.example" and r["verdict"] == "allow" and abs(r["time_ms"] - int(now)) < 600000
               and r["query"].startswith("q=***"), f"the record of a session whose secret is {value}", r)
        cell.detach()


def main():
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root for network namespaces")
        return 1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0
    w = World()
    egress = Egress(w.net, os.environ.get("CORDON_EGRESS", "./cordon-egress"))
    try:
        cell = egress.cell(POLICY, SECRETS)
        test_redirects(cell)
        test_echo(cell)
        test_cuts(cell)
        test_a_change_inside_a_value(cell)
        test_websocket(cell)
        test_no_parts(w, cell)
        test_changes(cell)
        test_after_the_rule(w, cell)
        cell.detach()
        test_neighbours(egress)
        test_by_address(w, egress)
        test_records(egress)
    finally:
        tap.same(egress.close(), 0, "and ends well with its channel")
        egress.log.seek(0)
        for line in egress.log.read().decode(errors="replace").splitlines():
            print("# " + line)
        w.net.close()
    return tap.done()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)

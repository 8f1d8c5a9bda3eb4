#!/usr/bin/env python3
"""Bounds of what programs and servers send through cordon-egress, at their values and one beyond (doc/security/bounds.md)."""

import contextlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import ask, read_response
from origin_server import Reader, answer
from gateway_world import SCRIPT, get, main, tap

HEAD = 65536  # FLOW_HEAD_MAX
FLOWS = 256
MODEL = 768 << 10


def padded(start, size, more):
    """A head of just that size."""
    return start + b"X-Pad: " + b"p" * (size + more - len(start) - 11) + b"\r\n\r\n"


def test_heads_of_requests(cell, origin):
    start = b"GET /head HTTP/1.1\r\nHost: web.example\r\n"
    for more, want in ((-1, 200), (0, 200), (1, 431)):
        before, s = len(origin.requests), cell.connect("web.example", 80)
        r = ask(s, padded(start, HEAD, more))
        tap.same((r and r.status, len(origin.requests) - before), (want, int(want == 200)), f"a head of a request of {HEAD + more} bytes")
        s.close()


def test_heads_of_answers(cell):
    start = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
    for more, want in ((0, 200), (1, 502)):
        SCRIPT["/answer"] = padded(start, HEAD, more) + b"ok"
        s = cell.connect("web.example", 80)
        r = ask(s, get("/answer"))
        tap.same(r and r.status, want, f"a head of an answer of {HEAD + more} bytes")
        s.close()


def test_interim_answers(cell):
    for n, want in ((16, 200), (17, 502)):
        SCRIPT["/interim"] = b"HTTP/1.1 102 Processing\r\n\r\n" * n + answer(b"ok")
        s = cell.connect("web.example", 80)
        s.sendall(get("/interim").encode())
        reader, seen = Reader(s), 0
        r = read_response(reader)
        while r and r.status < 200:
            seen += 1
            r = read_response(reader)
        tap.same((r and r.status, seen), (want, 16), f"{n} interim answers")
        s.close()


def test_headers_with_secrets(egress, origin_tls):
    """The value may be as long as a head; the server here has no bound."""
    placeholder, value = "cordon_0123456789abcdef0123456789abcdef", "v" * 60000
    secret = {"name": "S", "value": value, "placeholder": placeholder, "hosts": ["look.example"], "in": ["header:X-Key"]}
    cell = egress.cell({"rules": [{"host": "look.example", "paths": ["/**"]}]}, [secret])
    for more, want in ((0, 200), (1, 400)):
        before, s = len(origin_tls.requests), cell.tls("look.example")
        r = ask(s, get("/key", "look.example", f"X-Key: {placeholder}{'p' * (HEAD - len(value) + more)}\r\n"))
        got = [len(q.get("X-Key")) for q in origin_tls.requests[before:]]
        tap.same((r and r.status // 100, got), (want // 100, [HEAD] if want == 200 else []), f"a header of {HEAD + more} bytes with its secret")
        s.close()
    cell.detach()


def test_connections_of_a_session(egress):
    cell = egress.cell({"rules": [{"host": "web.example"}]})
    held = [cell.connect("web.example", 80) for _ in range(FLOWS)]
    tap.ok(egress.ping(), "all were taken")
    tap.same({ask(s, get("/held")).status for s in held}, {200}, f"{FLOWS} connections of a session are served")
    r = None
    with contextlib.suppress(OSError), contextlib.closing(cell.connect("web.example", 80)) as one:
        r = ask(one, get("/more"))
    tap.same(r, None, "one more is not")
    tap.ok(cell.record(lambda r: "too many connections" in r.get("reason", "")), "and its record says why")
    held.pop().close()
    egress.wait(lambda: False, 0.3)  # until its end has been seen
    s = cell.connect("web.example", 80)
    tap.same(ask(s, get("/again")).status, 200, "when one has ended, another is served")
    for s in (*held, s):
        s.close()
    cell.detach()


def model_call(cell, s, prompt):
    """What the record says of a call with this prompt."""
    before = len(cell.records)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]})
    ask(s, f"POST /v1/chat/completions HTTP/1.1\r\nHost: look.example\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}")
    return cell.egress.wait(lambda: next((r for r in cell.records[before:] if r["kind"] == "request"), None)).get("model")


def test_prompts(egress):
    """Control characters are six bytes each in a record: 256 KiB that are kept can be more than a record may have."""
    SCRIPT["/v1/chat/completions"] = answer(b"{}", headers=("Content-Type: application/json",))
    cell = egress.cell({"rules": [{"host": "look.example", "class": "model", "prompts": True}]})
    s = cell.tls("look.example")
    other = len(json.dumps(model_call(cell, s, ""), separators=(",", ":")))
    n = (MODEL - other) // 6
    fill = MODEL - other - 6 * n
    sizes = {}
    for more in range(-2, 4):
        model = model_call(cell, s, "\x01" * n + "x" * (fill + more))
        sizes[more] = len(json.dumps(model, separators=(",", ":"))) if model else None
    whole = [v for v in sizes.values() if v]
    tap.ok(whole and max(whole) in (MODEL, MODEL - 1) and sizes[3] is None, "a record has so many bytes of prompts, and one beyond none", sizes)
    s.close()
    cell.detach()


def tests(w, egress, cell):
    test_heads_of_requests(cell, w.origin)
    test_heads_of_answers(cell)
    test_interim_answers(cell)
    test_headers_with_secrets(egress, w.origin_tls)
    test_connections_of_a_session(egress)
    test_prompts(egress)


if __name__ == "__main__":
    main(tests)

#!/usr/bin/python3
"""What is judged is what is sent: framing, headers that rename a request, parameters that servers read
differently, WebSocket frames, certificates, secrets that are taken away."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from egress_harness import Origin, Reader, answer, ask, read_response
from gateway_world import SCRIPT, get, main, tap

VALUE, PLACEHOLDER = "s3cr3t-value-0123456789", "CORDON_PLACEHOLDER_abcdef"


def token(host="look.example", **more):
    return {"name": "TOKEN", "value": VALUE, "placeholder": PLACEHOLDER, "hosts": [host],
            "in": ["header", "body:token"], **more}


def chunked(*pieces):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


def test_collected(egress, origin):
    """A chunked body that a secret is put into goes on with a length, and ends there."""
    cell = egress.cell({"rules": [{"host": "look.example", "secret": "TOKEN"}]}, [token()])
    body = b'{"token": "%s"}' % PLACEHOLDER.encode()
    head = (b"POST /%s HTTP/1.1\r\nHost: look.example\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n")
    s = cell.tls("look.example")
    reader = Reader(s)
    for name, pieces in (("one", [body]), ("two", [body[:5], body[5:]]), ("none", [])):
        s.sendall(head % name.encode() + chunked(*pieces))
        r = read_response(reader)
        seen = origin.requests[-1]
        tap.same((r.status, seen.line.split(" ")[1], seen.get("Transfer-Encoding"),
                  seen.body.replace(VALUE.encode(), PLACEHOLDER.encode())),
                 (200, f"/{name}", None, b"".join(pieces)), f"a chunked body with a secret: {name}")
        s.sendall(get("/behind", "look.example").encode())
        r = read_response(reader)
        tap.same((r.status, origin.requests[-1].line), (200, "GET /behind HTTP/1.1"),
                 "and the next request of the connection gets its own answer")
    large = b'{"x": "' + b"y" * (1 << 20) + b'"}'
    s.sendall(head % b"large" + chunked(large[:70000], large[70000:]))
    r = read_response(reader)
    tap.same((r.status, origin.requests[-1].body == large), (200, True),
             "a body that is too long to be collected goes on in chunks")
    tap.same(ask(s, get("/behind", "look.example")).status, 200, "and ends as one")
    s.close()


def test_certificates(egress, net):
    """A common name is no name of a server."""
    net.name("cn.example", "93.184.216.40")
    base = net.path("cn")
    net.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", base + ".key", "-out", base + ".pem", "-days", "30", "-subj",
                "/CN=cn.example", "-addext", "basicConstraints=critical,CA:FALSE", "-CA",
                net.path("world.pem"), "-CAkey", net.path("world.key"))
    context = net.certificate("web.example")
    context.load_cert_chain(base + ".pem", base + ".key")
    Origin(net, "93.184.216.40", 443, lambda q: answer(b"x"), tls=context)
    cell = egress.cell({"rules": [{"host": "cn.example", "tls": "terminate"}]})
    s = cell.tls("cn.example")
    r = ask(s, get("/", "cn.example"))
    tap.ok(r.status == 502 and b"certificate of cn.example does not verify" in r.body,
           "a certificate with a common name only is refused", r.body)
    s.close()


def tests(w, egress, _cell):
    test_collected(egress, w.origin_tls)
    test_certificates(egress, w.net)


if __name__ == "__main__":
    main(tests)

"""attack_tools.py - what attacks on the package gate share: fake registries in the small internet, sessions with a
package policy, and requests from inside a cell, byte by byte."""
import base64
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "egress"), os.path.join(HERE, "..", "shared")]
import internet  # noqa: E402
from internet_client import PYTHON, TOOLS, policy  # noqa: E402
from registry import Registry  # noqa: E402
from checks import Failed, check, wait_for  # noqa: E402

R = Registry()

# Inside a cell: (status line, headers, body, how it ended) of each request of a list.
ASK = r"""
import base64
def ask(host, method, path, headers, body, port, scheme):
    text = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n{body}".encode("latin-1")
    got, end = b"", ""
    try:
        s = connect(host, port, 20)
        if scheme == "https":
            s = ssl.create_default_context().wrap_socket(s, server_hostname=host)
        s.sendall(text)
        while len(got) < 1 << 21:
            data = s.recv(65536)
            if not data:
                break
            got += data
    except (OSError, ValueError) as e:
        end = name_of(e)
    head, _, body = got.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    fields = dict(l.lower().split(": ", 1) for l in lines[1:] if ": " in l)
    if fields.get("transfer-encoding") == "chunked":
        whole, rest = b"", body
        while b"\r\n" in rest:
            size, _, rest = rest.partition(b"\r\n")
            n = int(size, 16)
            if n == 0:
                break
            whole, rest = whole + rest[:n], rest[n + 2:]
        else:
            end = end or "cut"
        body = whole
    elif len(body) < int(fields.get("content-length", 0)) and method != "HEAD":
        end = end or "cut"
    return [lines[0], fields, base64.b64encode(body).decode(), end]
"""


class Reply:
    def __init__(self, line, headers, body, end):
        words = line.split(" ", 2)
        self.status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        self.reason = words[2] if len(words) > 2 else ""
        self.headers, self.body, self.end = headers, base64.b64decode(body).decode("latin-1"), end
        self.whole = self.status == 200 and not end

    def __repr__(self):
        return f"<{self.status} {self.reason!r} {self.body[:200]!r} {self.end}>"


def world():
    if "npm.example" not in internet.NET.zone:
        R.join(internet.NET)
    return R


def session(server, *ecosystems, rules=(), key="", **packages):
    world()
    entries = packages.pop("registries", None) or R.entries(*(ecosystems or ("npm", "pypi")))
    s = server.create(network=policy(*rules, packages={"registries": entries, **packages}), key=key)
    return {**s, "key": key}


def asks(server, s, *requests):
    """Each request is (host, path) or {"host", "path", "method", "headers", "body", "port", "scheme"}."""
    usual = {"method": "GET", "headers": "", "body": "", "port": 443, "scheme": "https"}
    rows = [{**usual, **(q if isinstance(q, dict) else {"host": q[0], "path": q[1]})} for q in requests]
    text = repr(json.dumps(rows))
    program = f"{TOOLS}\n{ASK}\nshown([ask(**q) for q in json.loads({text})])"
    done = server.run(s["id"], [PYTHON, "-c", program], user="root", key=s.get("key", ""))
    try:
        return [Reply(*row) for row in json.loads(done["stdout"].splitlines()[-1])]
    except (IndexError, ValueError):
        raise Failed(f"{rows}: exit {done['exit_code']} {done['stdout'][-500:]} {done['stderr'][-1500:]}") from None


def npm(server, s, path, **more):
    return asks(server, s, {"host": "npm.example", "path": path, **more})[0]


def packages(server, s, **members):
    found = server.want(200, "GET", f"/v1/sessions/{s['id']}/packages?limit=1000", key=s.get("key", ""))["packages"]
    return [r for r in found if all(r.get(k) == v for k, v in members.items())]


def recorded(server, s, **members):
    """The row of a package with these members, waited for."""
    return wait_for(lambda: packages(server, s, **members), 10, f"a row with {members}")[0]


def refused(reply, *parts):
    check(reply.status in (403, 451), f"not refused: {reply}")  # 451: bundler shows the reason of no other
    for part in parts:
        check(part in reply.reason, f"no {part!r} in the reason of {reply}")

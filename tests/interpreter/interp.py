"""interp.py - starts cordon-interpreter on this machine, without a cell, and speaks with it."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "shared"))
import tap  # noqa: E402
from checks import Failed, Skip, equal, wait_for  # noqa: E402,F401

PROGRAM = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
SCRIPTED = HERE / "kernels"
REAL = HERE.parent.parent / "src/incell/interpreter/kernels"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Http(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Stream:
    """An answer of POST /execute, as its lines come."""

    def __init__(self, conn, response):
        self.conn, self.response, self.status = conn, response, response.status

    def raw_lines(self):
        return iter(self.response.readline, b"")

    def next(self):
        return json.loads(self.response.readline())

    def rest(self):
        return [json.loads(line) for line in self.raw_lines()]

    def close(self):
        if self.conn.sock is not None:
            self.conn.sock.close()
        self.response.close()


class Interpreter:
    def __init__(self, kernels=SCRIPTED, stdin=None, path=PATH, env=None, ready=True, options=()):
        self.folder = tempfile.mkdtemp(prefix="cordon-interp-")
        self.socket = self.folder + "/socket"
        self.log = open(self.folder + "/log", "w+")  # noqa: SIM115
        self.kernels, self.stdin, self.path, self.env, self.options = kernels, stdin, path, env or {}, options
        self.start()
        if ready:
            self.verb("ready", check=True)

    def start(self, port=0):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--port", str(port), "--socket", self.socket, "--kernels", str(self.kernels), "--cwd", self.folder,
             *self.options],
            stdin=self.stdin if self.stdin is not None else subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env={"PATH": self.path, "HOME": self.folder, **self.env})

    def __enter__(self):
        return self

    def __exit__(self, kind, why, trace):
        if self.process.poll() is None:
            self.process.kill()
        code = self.process.wait()
        self.log.seek(0)
        text = self.log.read()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if kind is None and "Sanitizer" in text:
            raise Failed(text)
        if kind is None and code not in (-signal.SIGKILL, 0):
            raise Failed(f"the server has ended with {code}: {text[-2000:]}")
        if kind is not None:
            print("# log:", text[-1500:].replace("\n", "\n# "))

    def verb(self, *args, **kw):
        return subprocess.run([PROGRAM, args[0], "--socket", self.socket, *args[1:]], capture_output=True, timeout=60,
                              env={"PATH": PATH}, **kw)

    def conn(self, timeout=60):
        return Http(self.socket, timeout)

    def call(self, method, path, body=None, headers=None):
        """Status, headers and body of one request."""
        with contextlib.closing(self.conn()) as c:
            c.request(method, path, json.dumps(body) if isinstance(body, dict) else body, headers or {})
            r = c.getresponse()
            return r.status, r.headers, r.read().decode()

    def json(self, method, path, body=None):
        status, _, text = self.call(method, path, body)
        equal(status, 200, text)
        return json.loads(text)

    def stream(self, code, **more):
        """Sends code; the answer has begun when this returns."""
        c = self.conn()
        c.request("POST", "/execute", json.dumps({"code": code, **more}))
        return Stream(c, c.getresponse())

    def run(self, code, **more):
        """All lines of an execution."""
        s = self.stream(code, **more)
        if s.status != 200:
            raise Failed(f"{s.status}: {s.response.read().decode()}")
        lines = s.rest()
        s.close()
        equal(lines[-1], {"type": "end_of_execution"})
        return lines[:-1]

    def value(self, code, **more):
        """What it prints."""
        return "".join(line["text"] for line in self.run(code, **more) if line["type"] == "stdout")

    def memory(self, name="VmHWM"):
        for line in open(f"/proc/{self.process.pid}/status", encoding="ascii"):  # noqa: SIM115
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
        raise Failed("no " + name)


def types(lines):
    return [line["type"] for line in lines if line["type"] != "keepalive"]


def the(lines, kind):
    found = [line for line in lines if line["type"] == kind]
    equal(len(found), 1, f"one {kind} in {lines}")
    return found[0]


def gone(pid):
    try:
        return open(f"/proc/{pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()[0] in "ZX"  # noqa: SIM115
    except OSError:
        return True


def main(tests):
    sys.exit(tap.run(tests, sys.argv[2:]))

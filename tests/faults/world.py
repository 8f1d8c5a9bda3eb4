"""world.py - a server of the fault build, and what the steps need in it: two sessions that are made anew when a failing
call has ended them, clients for both interfaces, and a list of the routes that were asked."""
import base64
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
import harness  # noqa: E402
from client import PATIENCE, Finding, Link  # noqa: E402
from control import Control  # noqa: E402

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "behaviour"))
from sanitizer import reports  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PARAM = r"[^/?]+"


def install(build):
    """A folder with the programs, cordond and cordon-egress those of the fault build."""
    folder = tempfile.mkdtemp(prefix="cordon-faults-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    for name in harness.PROGRAMS:
        shutil.copy(os.path.join(build, name), folder)
    shutil.copytree(os.path.join(build, "kernels"), os.path.join(folder, "kernels"))
    for name, own in (("cordond", "fault-cordond"), ("cordon-egress", "fault-egress")):
        shutil.copy(os.path.join(build, "tests", "faults", own), os.path.join(folder, name))
    return folder


def read_routes(program):
    """(table, method, pattern) of every route: of both interfaces, and of a sandbox's own port."""
    found = set()
    for table, option in (("api", "--routes"), ("e2b", "--e2b-routes")):
        text = subprocess.run([program, option], check=True, capture_output=True, text=True).stdout
        found |= {(table, *line.split()) for line in text.splitlines()}
    with open(os.path.join(ROOT, "src/front/e2b/envd/envd.c")) as f:
        found |= {("envd", m, p) for m, p in re.findall(r'\{ HTTP1_(\w+), "(/[^"]+)"', f.read())}
    return found


class World:
    def __init__(self, folder, seed):
        self.folder, self.random = folder, random.Random(seed)
        self.control = Control(folder, "cordond")
        self.egress = Control(folder, "cordon-egress")
        program = os.path.join(folder, "cordond")
        self.routes = {r: re.compile(re.sub(r"\{\w+\}", PARAM, r[2].replace("{*}", ".+")) + "$") for r in read_routes(program)}
        self.asked = set()
        self.start()
        self.at = 0  # how much of the log was looked at
        self.number = 0
        self.s = self.box = self.token = None
        self.daemon = self.server.pid("cordond")
        self.std = self.standard()
        self.statuses = {}
        self.make()

    def start(self):
        settings = {"pool_size": 1, "memory_default": "64M", "disk_default": "64M", "retention": "1h",
                    "registries": "127.0.0.1"}
        self.server = harness.Server(os.path.join(self.folder, "cordon"), **settings)

    # -- what there is

    def make(self):
        """The sessions that the steps work in."""
        self.s = self.server.create(timeout="1h")["id"]
        made = self.server.want(201, "POST", "/v2/sandboxes", {"templateID": "base", "timeout": 3600})
        self.box, self.token = made["sandboxID"], made.get("envdAccessToken")
        self.server.ids.add(self.box)
        self.text = bytes(self.random.getrandbits(8) for _ in range(300 << 10))
        self.server.want(201, "PUT", f"/v1/sessions/{self.s}/files?path=fixed", self.text)
        self.server.run(self.s, "mkdir -p tree; for i in $(seq 40); do head -c 9000 fixed > tree/$i; done")
        self.run_tree = sorted(f"tree/{i}" for i in range(1, 41))
        self.rpc_raw("POST", "/files?path=/tmp/fixed", self.text, {"Content-Type": "application/octet-stream"})

    def mend(self):
        """A failing call may have ended a session: then there is another one for the next step."""
        states = [self.server.get(i)["state"] for i in (self.s, self.box)]
        if states != ["running", "running"]:
            for i in (self.s, self.box):
                self.server.request("DELETE", f"/v1/sessions/{i}")
            self.make()

    def fresh(self, kind="f"):
        self.number += 1
        return f"{kind}{self.number}"

    def standard(self):
        return [os.readlink(f"/proc/{self.server.pid('cordond')}/fd/{fd}") for fd in range(3)]

    def descriptors(self, program="cordond"):
        return len(os.listdir(f"/proc/{self.server.pid(program)}/fd"))

    # -- asking

    def note(self, table, method, path):
        bare = path.split("?")[0]
        for route, pattern in self.routes.items():
            if route[1] == method and (route[0] == "envd") == (table == "envd") and pattern.match(bare):
                self.asked.add(route)

    def link(self, method, path, body=None, headers=None, key="", patience=PATIENCE):
        sent = dict(headers or {})
        if key is not None:
            sent["X-API-Key"] = key or self.server.key
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        if body is None and method in ("POST", "PUT", "PATCH"):
            body = b""
        self.note("api", method, path)
        return Link(self.server.address, method, path, sent, body, patience)

    def ask(self, method, path, body=None, headers=None, key=""):
        return self.link(method, path, body, headers, key).finish()

    def in_session(self, method, path, body=None, headers=None):
        return self.ask(method, f"/v1/sessions/{self.s}{path}", body, headers)

    def envd_headers(self, port=49983):
        return {"E2b-Sandbox-Id": self.box, "E2b-Sandbox-Port": str(port), "X-Access-Token": self.token or ""}

    def rpc_link(self, method, path, body=None, headers=None):
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        sent = {**self.envd_headers(), "Content-Type": "application/json", "Connect-Protocol-Version": "1", **(headers or {})}
        if body is None and method == "POST":
            body = b""
        self.note("envd", method, path)
        return Link(self.server.address, method, path, sent, body)

    def rpc_raw(self, method, path, body=None, headers=None):
        return self.rpc_link(method, path, body, headers).finish()

    def rpc(self, name, message):
        return self.rpc_raw("POST", "/" + name, message)

    # -- judging

    def good(self, answer, *statuses):
        """True if it was acknowledged. Anything but that, a refusal that says it is the server's fault, and a cut
        answer is a finding."""
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        if answer.whole and answer.status in statuses:
            return True
        if answer.whole and 200 <= answer.status < 500 and answer.status not in (409, 410, 429):
            raise Finding(f"{answer!r}: neither {statuses} nor an error of the server")
        return False

    def look(self):
        """Nothing has died, and no sanitizer has spoken."""
        log = self.server.log()
        new, self.at = log[self.at :], len(log)
        if found := reports(new):
            raise Finding("a sanitizer's report:\n" + found[0])
        # A program that ends with its channel: there is another one.
        died = re.findall(r'.*level=(?:warn|error) msg="?(?:died|program ended).*', new)
        died = [line for line in died if not re.search(r"program=cordon-(keeper|storage|pull|notary) .*signal=0", line)]
        if died:
            raise Finding("a program died: " + "\n".join(died))
        if self.server.pid("cordond") != self.daemon:
            raise Finding("cordond is another process\n" + new[-3000:])
        if self.standard() != self.std:
            raise Finding(f"descriptors 0 to 2 are {self.standard()}, were {self.std}")

    def revive(self):
        """After a finding: the server as it should be, so that the others can be looked for."""
        try:
            self.server.wait_ready(20)
        except Exception:
            self.server.destroy()
            self.start()
        self.daemon, self.std, self.at = self.server.pid("cordond"), self.standard(), len(self.server.log())
        try:
            self.mend()
        except Exception:
            self.make()

    def settle(self, what, seconds=20.0):
        """Waits until what() is so."""
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)  # between two looks
        return True


def b64(data):
    return base64.b64encode(data).decode()

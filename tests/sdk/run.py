#!/usr/bin/python3
"""run.py - one file of SDK tests, run by node against a server of its own.

    run.py CORDON PACKAGES test_x.mjs [name ...]

The server is that of tests/server/harness.py: its own folders and port, searched at the end for anything
that it left behind. PACKAGES is where tools/sdk-packages puts the npm packages; it is called here, and
does nothing if they are there. A line "// server: name=value ..." of the file gives settings, "// server at LEVEL: ..."
those that are others there; a line "// kills" says that programs of the server die in it, "// languages" that sandboxes
need node, "// interpreter" that it needs a template with the code interpreter. The tests ask for what only the operator
can do (restarts, tenants) through a socket, one line of JSON there, one back.
"""
import argparse
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "server"))
import harness  # noqa: E402
import languages_root  # noqa: E402
import level  # noqa: E402
from harness import Failed, isolate, note  # noqa: E402
from leveled import INTERPRETER, Leveled as Server  # noqa: E402

WHOLE = 280  # seconds that a file may take; each test has a bound of its own


class Secure(Server):
    """One that is spoken to over TLS, with the certificate that it has made."""

    @property
    def authority(self):
        return os.path.join(self.state, "tls", "ca.pem")

    def link(self, timeout=60):
        trust = ssl.create_default_context(cafile=self.authority)
        return http.client.HTTPSConnection(*self.address, timeout=timeout, context=trust)


class Operator(threading.Thread):
    """Does what the tests ask for."""

    def __init__(self, server, link):
        super().__init__(daemon=True)
        self.server, self.link = server, link

    def do(self, order):
        server, what = self.server, order["do"]
        if what == "restart":
            server.restart()
        elif what == "kill":
            return server.kill(order["name"])
        elif what == "kill_supervisor":  # and what starts it again
            server.note_cells()
            pids = harness.children(server.process.pid)
            server.process.kill()
            server.process.wait()
            harness.wait_for(lambda: not any(harness.comm(p) in ("cordond", "cordon-keeper") for p in pids), 15)
            server.start()
        elif what == "ready":
            server.wait_ready()
        elif what == "tenant":
            return server.tenant(order["name"], **order.get("limits", {}))
        elif what == "kill_cell":  # its PID 1, from outside
            os.kill(server.cell_pids(order["id"])[0], signal.SIGKILL)
        else:
            raise Failed(f"no order {what!r}")
        return None

    def run(self):
        with self.link, self.link.makefile("rwb") as file:
            for line in file:
                order = json.loads(line)
                try:
                    answer = {"id": order["n"], "ok": self.do(order)}
                except Exception as e:  # told to the test, which fails by it
                    answer = {"id": order["n"], "error": repr(e)}
                try:
                    file.write(json.dumps(answer).encode() + b"\n")
                    file.flush()
                except OSError:
                    return


def settings_of(path):
    """(settings, words that stand for themselves: kills, languages, interpreter)"""
    with open(path) as f:
        text = f.read()
    port = harness.free_port()
    words = re.search(r"^// server: (.*)$", text, re.M)[1].format(port=port).split()
    there = re.search(rf"^// server at {level.LEVEL}: (.*)$", text, re.M)
    words += there[1].split() if there else []
    settings = dict(word.split("=", 1) for word in words)
    return {**settings, "listen": f"127.0.0.1:{port}"}, re.findall("^// (kills|languages|interpreter)$", text, re.M)


def patience_of(words):
    """A factor for what is waited for. A sandbox with the interpreter imports IPython first, which is most of a test where it is emulated."""
    return level.PATIENCE * (2 if "interpreter" in words and level.LEVEL == "microvm" else 1)


def environment(server, packages, link, patience):
    """Three variables are all that a user of the SDK sets; two and a certificate with TLS."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("E2B_", "NODE_", "CORDON_"))}
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        env.pop(name, None)
    env["E2B_API_KEY"] = server.key
    if isinstance(server, Secure):
        env.update(E2B_DOMAIN=server.settings["domain"], NODE_EXTRA_CA_CERTS=server.authority)
    else:
        env.update(E2B_API_URL=server.url, E2B_SANDBOX_URL=server.url, E2B_VOLUME_API_URL=server.url)
    env["SDK_LEVEL"] = json.dumps({"name": level.LEVEL, "differences": level.DIFFERENCES, "patience": patience,
                                   "interpreter": INTERPRETER})
    env.update(SDK_PACKAGES=packages, SDK_OPERATOR=str(link.fileno()), SDK_FOLDER=server.folder)
    return env


def run_node(path, names, server, packages, patience):
    """(how many tests there were, exit code)"""
    ours, theirs = socket.socketpair()
    Operator(server, ours).start()
    env = environment(server, packages, theirs, patience)
    node = subprocess.Popen(
        [os.path.join(packages, "bin", "node"), path, *names],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=env,
        pass_fds=[theirs.fileno()],
        text=True,
    )
    theirs.close()
    alarm = threading.Timer(WHOLE * patience, node.kill)
    alarm.start()
    planned = told = 0
    for line in node.stdout:
        told += line.startswith(("ok ", "not ok "))
        plan = re.fullmatch(r"1\.\.(\d+)\n", line)
        if plan:
            planned = int(plan[1])
            line = f"1..{planned + 1}\n"
        print(line, end="", flush=True)
    alarm.cancel()
    code = node.wait()
    if told != planned or planned == 0:
        print(f"Bail out! {told} of {planned} tests were run")
        code = 1
    return planned, code


def check_levels(server):
    """Each session that the tests have made, as far as the first tenant knows it, had the level of the suite."""
    if server.process.poll() is not None:
        return
    for name in set(re.findall(r"session_id=(\w+) tenant=\S+ from=creating to=running", server.log())):
        status, _, session = server.request("GET", f"/v1/sessions/{name}")
        if status == 200:
            harness.equal(session["level"], level.LEVEL, name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cordon")
    parser.add_argument("packages")
    parser.add_argument("file")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(1 if os.environ.get("CORDON_MUST_WORK") == "1" else 0)
    packages = os.path.abspath(args.packages)
    if subprocess.call([os.path.join(HERE, "..", "..", "tools", "sdk-packages"), packages], stdout=2) != 0:
        print("Bail out! no npm packages")
        sys.exit(1)
    isolate()
    harness.ORIGINAL = os.path.abspath(args.cordon)
    harness.PROGRAM = harness.reachable(harness.ORIGINAL)
    settings, words = settings_of(args.file)
    if "languages" in words:
        level.ROOT = languages_root
    server = (Secure if settings.get("tls_local") == "yes" else Server)(**settings)
    if "interpreter" in words:
        server.add_interpreter()
    planned, code = run_node(os.path.abspath(args.file), args.names, server, packages, patience_of(words))
    began, verdict, why = time.monotonic(), "ok", ""
    died = re.findall(r'.*level=(?:warn|error) msg="?(?:died|program ended).*', server.log())
    if code != 0:
        lines = [line for line in server.log().splitlines() if "msg=request " not in line]
        note("log of the server:\n" + "\n".join(lines[-30:]))
    levels = harness.attempt(lambda: check_levels(server))
    verdict, why = harness.attempt(server.close)
    if levels[0] != "ok":
        verdict, why = levels
    if verdict == "ok" and died and "kills" not in words:
        verdict, why = "not ok", "a program of the server died:\n" + "\n".join(died)
    print(f"{verdict} {planned + 1} - nothing is left")
    note(f"{why}\n{time.monotonic() - began:.2f} s" if why else f"{time.monotonic() - began:.2f} s")
    sys.exit(1 if code != 0 or verdict != "ok" else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""test_endpoint.py - the conformance suite of MCP against /mcp of a server, and against mcp-gateway in a cell.

    test_endpoint.py CORDON [name ...]

The suite cannot send a key: a relay adds one to each request. The packages of npm are beside CORDON. Checks that the
suite cannot make here (it calls tools that only the fixture has) are listed in not-passed-endpoint, and must not pass, or
the list is stale."""
import glob
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "server"))
PACKAGES = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), "mcp-npm")
from harness import Failed, equal, note, run_tests  # noqa: E402

MODERN, LEGACY = "2026-07-28", "2025-11-25"
SUITE = os.path.join(PACKAGES, "node_modules/@modelcontextprotocol/conformance/dist/index.js")


class Relay(threading.Thread):
    """Passes connections on to the server: one request each, with headers added to its head."""

    def __init__(self, address, **headers):
        super().__init__(daemon=True)
        self.target = address
        self.headers = [f"{name.replace('_', '-')}: {value}".encode() for name, value in headers.items()]
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/mcp"
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, socket.create_connection(self.target) as server:
            got = b""
            while b"\r\n\r\n" not in got:
                piece = client.recv(65536)
                if not piece:
                    return
                got += piece
            head, body = got.split(b"\r\n\r\n", 1)
            lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
            lines += [*self.headers, b"Connection: close"]
            server.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + body)
            up = threading.Thread(target=self.copy, args=(client, server), daemon=True)
            up.start()
            self.copy(server, client)

    @staticmethod
    def copy(source, target):
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            for s in (source, target):
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


def install():
    tool = os.path.join(HERE, "..", "..", "tools", "sdk-packages")
    subprocess.run([tool, PACKAGES, os.path.join(HERE, "package.json"), "22"], check=True, timeout=900)


def checks(url, revision, scenario):
    """The checks of a scenario, as [(id, status, message)]."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([os.path.join(PACKAGES, "bin/node"), SUITE, "server", "--url", url, "-o", folder, "--scenario",
                               scenario, "--spec-version", revision], capture_output=True, text=True, timeout=120, check=False)
        files = glob.glob(os.path.join(folder, "*", "checks.json")) + glob.glob(os.path.join(folder, "checks.json"))
        if not files:
            raise Failed(f"{scenario}: the suite has no results: {(done.stdout + done.stderr)[-2000:]}")
        with open(files[0], encoding="utf-8") as f:
            return [(c["id"], c["status"], c.get("errorMessage", "")) for c in json.load(f)]


def expected(endpoint, revision, scenario):
    with open(os.path.join(HERE, "not-passed-endpoint"), encoding="utf-8") as f:
        rows = [line.split(None, 4) for line in f if line.strip() and not line.startswith("#")]
    return {check for e, r, s, check, _ in rows if (e, r, s) == (endpoint, revision, scenario)}


def conforms(endpoint, relay, revision, scenarios):
    install()
    wrong = []
    try:
        for scenario in scenarios:
            results = checks(relay.url, revision, scenario)
            failed = {name for name, status, _ in results if status in ("FAILURE", "WARNING")}
            passed = {name for name, status, _ in results if status == "SUCCESS"} - failed
            want = expected(endpoint, revision, scenario)
            wrong += [f"{scenario} {name}: {why[:400]}" for name, status, why in results if name in failed - want]
            wrong += [f"{scenario} {name}: is listed, and does not fail" for name in want - failed]
            wrong += [f"{scenario}: nothing passes"] if not passed else []
            note(f"{revision} {scenario}: {len(passed)} pass, {len(failed)} are listed as failing")
    finally:
        relay.socket.close()
    if wrong:
        raise Failed("\n".join(wrong))


def to_server(server):
    return Relay(server.address, Authorization=f"Bearer {server.key}")


def test_the_modern_revision(server):
    conforms("server", to_server(server), MODERN,
             ["server-stateless", "tools-list", "caching", "dns-rebinding-protection", "http-header-validation"])


def test_the_legacy_revision(server):
    conforms("server", to_server(server), LEGACY, ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"])


def gateway(server, era):
    """A relay to mcp-gateway in a sandbox of its own, with one server of this era behind it."""
    made = server.want(201, "POST", "/sandboxes", {"templateID": "base", "timeout": 300}, key=None,
                       headers={"X-API-Key": server.key})
    with open(os.path.join(HERE, "..", "gateway", "stdio_server.py"), encoding="utf-8") as f:
        config = {"one": {"command": ["python3", "-c", f.read(), "--era", era]}}
    done = server.run(made["sandboxID"], ["/opt/cordon/bin/mcp-gateway", "--config", json.dumps(config)], user="root",
                      env={"GATEWAY_ACCESS_TOKEN": "tok"})
    equal(done["exit_code"], 0, done["stderr"])
    return Relay(server.address, Authorization="Bearer tok", E2b_Sandbox_Id=made["sandboxID"], E2b_Sandbox_Port=50005)


def test_a_gateway_in_a_cell_modern(server):
    conforms("gateway", gateway(server, "legacy"), MODERN, ["server-stateless", "tools-list", "http-header-validation"])


def test_a_gateway_in_a_cell_legacy(server):
    conforms("gateway", gateway(server, "modern"), LEGACY, ["server-initialize", "ping", "tools-list"])


if __name__ == "__main__":
    run_tests(globals())

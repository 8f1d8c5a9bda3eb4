#!/usr/bin/python3
"""test_clients.py - the official clients of MCP against a real server and against cordon mcp: both SDKs (clients.mjs), and
the inspector's command line.

    test_clients.py CORDON PACKAGES [name ...]

PACKAGES is where tools/sdk-packages puts the npm packages; they are installed here if they are not there."""
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "server"))
import harness  # noqa: E402
from harness import Failed, check, equal, note, run_tests  # noqa: E402

if "MCP_PACKAGES" not in os.environ:  # this program executes itself again (isolate())
    os.environ["MCP_PACKAGES"] = os.path.abspath(sys.argv.pop(2))
    subprocess.run([os.path.join(HERE, "..", "..", "tools", "sdk-packages"), os.environ["MCP_PACKAGES"],
                    os.path.join(HERE, "package.json"), "22"], check=True, timeout=900)
PACKAGES = os.environ["MCP_PACKAGES"]
INSPECTOR = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"


def node(*args, **env):
    done = subprocess.run([os.path.join(PACKAGES, "bin/node"), *args], capture_output=True, text=True, timeout=120,
                          check=False, env={**os.environ, "HOME": "/nonexistent", "MCP_CATALOG_PATH": "/dev/null", **env}, cwd="/")
    if done.returncode != 0:
        raise Failed(f"{args}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def inspect(target, *args):
    text = node(os.path.join(PACKAGES, INSPECTOR), "--cli", *target, *args)
    return json.loads(text)


def test_the_sdks(server):
    text = node(os.path.join(HERE, "clients.mjs"), server.url + "/mcp", server.key, harness.PROGRAM, PACKAGES)
    note(text)
    equal(text.count("\nok "), 6, "kinds of clients")


def test_the_inspector(server):
    web = [server.url + "/mcp", "--transport", "http", "--header", f"Authorization: Bearer {server.key}"]
    pipe = [harness.PROGRAM, "mcp", "-e", f"CORDON_SERVER={server.url}", "-e", f"CORDON_API_KEY={server.key}"]
    for target in (web, pipe):
        tools = inspect(target, "--method", "tools/list")["tools"]
        check("run" in [t["name"] for t in tools], str(tools)[:300])
        got = inspect(target, "--method", "tools/call", "--tool-name", "run", "--tool-arg", "command=echo from the inspector")
        equal(got["structuredContent"]["stdout"], "from the inspector\n", "a call")


def test_the_example(server):
    """examples/mcp: a loop as agents have it. It finds its packages where it lies."""
    there = os.path.join(PACKAGES, "example-agent.mjs")
    shutil.copy(os.path.join(HERE, "..", "..", "examples", "mcp", "agent.mjs"), there)
    text = node(there, CORDON_MCP_URL=server.url + "/mcp", CORDON_API_KEY=server.key)
    check("answer: Fixed: all tests pass" in text, text)
    check("mean is 3.0, not 2" in text, text)


if __name__ == "__main__":
    run_tests(globals(), pool_size=2, node_max_memory="500G")

"""level.py - the isolation level that a suite runs at: CORDON_TEST_LEVEL=gvisor or microvm, container without it.

The same tests run at each level. What a level does in another way has a name: a row of a table of differences in doc/levels.md, and an
entry of level_differences.py. A test that meets one asks for it and shows what happens there:

    if differs("set-user-id"):
        ...what is expected instead...

    @instead("memory", another_test)    # the test as a whole: the other one is run there, under the same name

A level that is a column of the tests and not of doc/levels.md cannot be named: tests/levels/test_differences.py compares the names."""
import os
import pathlib
import subprocess

import guest_kernel
import runsc
import slim_root
from checks import PATIENCE  # noqa: F401
from level_differences import DIFFERENCES

LEVEL = os.environ.get("CORDON_TEST_LEVEL", "container")
TEMPLATE = "slim" if LEVEL == "microvm" else "host"  # of sessions that name none
ROOT = slim_root  # what it is made of; a test that needs more programs sets languages_root before its server starts
IMPORTED = False  # by Cordon, which adds the node's authority to its certificates; else it is used as it is
MET = []  # differences that the test which runs has met


def differs(name):
    """Whether this level differs from a container in what has this name."""
    met = LEVEL in DIFFERENCES[name]
    if met and name not in MET:
        MET.append(name)
    return met


def instead(name, function):
    """The test is this function at levels that differ by this name."""
    here = LEVEL in DIFFERENCES[name]

    def choose(test):
        if not here:
            return test

        def named(*args):
            differs(name)
            return function(*args)

        named.__wrapped__ = function  # for its parameters
        named.__name__ = test.__name__
        return named

    return choose


def met():
    """A line about the differences that were met since the last call; empty: none."""
    names, MET[:] = list(MET), []
    return f"differs at {LEVEL}: {', '.join(names)}" if names else ""


def settings(program, state_dir):
    """What a server needs for sessions of this level, and no cells of level container in advance."""
    if LEVEL == "container":
        return {}
    if LEVEL == "gvisor":
        return {"runsc": runsc.find(program), "pool_size": 0}
    pathlib.Path(state_dir).mkdir(parents=True, exist_ok=True)
    if not (pathlib.Path(state_dir) / "guest").exists():
        guest_kernel.give(program, state_dir)
    return {"pool_size": 0}


def copy_root(program, root, folder):
    """A root directory as a template of a server. Such directories are used as they are: Cordon's programs of cells are added here."""
    subprocess.run(["cp", "-a", root.state(program), folder], check=True)
    built, own = pathlib.Path(program).parent, pathlib.Path(folder) / "opt/cordon"
    (own / "bin").mkdir(parents=True)
    subprocess.run(["cp", built / "cordon-interpreter", built / "mcp-gateway", own / "bin"], check=True)
    subprocess.run(["cp", "-rL", built / "kernels", own], check=True)


def prepare(program, server):
    """Called when a server answers for the first time: adds the template of sessions that name none."""
    folder = pathlib.Path(server.state) / "templates" / TEMPLATE
    if LEVEL != "microvm" or folder.exists():
        return
    if IMPORTED:
        folder.mkdir()  # so that it is done once
        with subprocess.Popen(["tar", "-C", ROOT.state(program), "-c", "."], stdout=subprocess.PIPE) as tar:
            server.want(201, "POST", f"/v1/templates?name={TEMPLATE}", tar.stdout, headers={"Content-Type": "application/x-tar"}, timeout=200)
        return
    copy_root(program, ROOT, folder)
    server.want(201, "POST", "/v1/templates", {"name": TEMPLATE, "level": LEVEL, "root": {"layers": [TEMPLATE]}})


def fetch(program):
    """Downloads what tests of this level need, for those that leave the machine's network later."""
    if LEVEL == "gvisor":
        runsc.find(program)
    elif LEVEL == "microvm":
        guest_kernel.state(program)


def run_options(program):
    """The options of `cordon run` for a command at this level."""
    if LEVEL == "gvisor":
        return ["--level", LEVEL, "--runsc", runsc.find(program)]
    if LEVEL == "microvm":
        return ["--level", LEVEL, "--state-dir", str(guest_kernel.state(program)), "--template", str(slim_root.state(program))]
    return []


def with_level(method, path, body):
    """The body of a request, with the level and the template if it makes a session and names none."""
    if LEVEL == "container" or method != "POST" or path not in CREATES:
        return body
    if body is None:
        body = {}
    if not isinstance(body, dict):
        return body
    return CREATES[path](body)


def with_session_level(body):
    return {"level": LEVEL, **({} if TEMPLATE == "host" else {"template": TEMPLATE}), **body}


def with_sandbox_level(body):
    if body.get("templateID") == "base" and TEMPLATE != "host":
        body = {**body, "templateID": TEMPLATE}
    if "metadata" in body and not isinstance(body["metadata"], dict):
        return body  # a test of what is refused
    return {**body, "metadata": {"cordon.level": LEVEL, **(body.get("metadata") or {})}}


CREATES = {"/v1/sessions": with_session_level, "/sandboxes": with_sandbox_level, "/v2/sandboxes": with_sandbox_level}

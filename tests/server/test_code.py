#!/usr/bin/python3 -B
"""Goal: code as executions. It runs in contexts that keep their state, in sessions of any template; results come as
a stream of their own, bounded, masked and strict whatever the cell writes; time limits, kills, restarts of the daemon
and records are those of any execution.

    test_code.py CORDON [name ...]
"""
import base64
import json
import os
import socket
import subprocess
import tempfile

from harness import check, equal, has, rss, run_tests, wait_for
import languages_root  # after harness, which knows where it is
import level
from leveled import INTERPRETER, TEMPLATE, Interpreted
from mcp_client import Client

KILLS = True
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="

# In place of the interpreter: its server waits, and "run" executes its input as a shell script, with descriptor 3.
FAKE = """#!/bin/sh
case $1 in serve) exec sleep 1000;; ready) exit 0;; esac
exec sh -s "$@"
"""


def code(server, session, text, wait=True, status=None, **more):
    query = "?wait=true" if wait else ""
    return server.want(status or (200 if wait else 202), "POST", f"/v1/sessions/{session}/executions{query}",
                       {"code": text, **more})


def session_of(server, **spec):
    return server.create(**spec)["id"]


def hostile(server, **spec):
    """A session whose interpreter is ours."""
    session = session_of(server, **spec)
    server.run(session, f"cat >/tmp/i <<'E'\n{FAKE}E\nchmod +x /tmp/i; rm /opt/cordon/bin/cordon-interpreter; "
               "mv /tmp/i /opt/cordon/bin/cordon-interpreter", user="root")
    return session


def services(server, session):
    rows = server.want(200, "GET", f"/v1/sessions/{session}/executions?order=asc")["executions"]
    return [x for x in rows if x["background"] and x["state"] == "running"]


def test_python_in_a_session_of_the_host(server):
    session = session_of(server, env={"GREETING": "hello 'there'"})
    done = code(server, session, "x = 41\nprint('out')\nx + 1")
    equal((done["exit_code"], done["stdout"], done["code_error"], done["results_dropped"]), (0, "out\n", None, 0))
    equal([r["text"] for r in done["results"]], ["42"])
    equal(done["execution_count"], 1)
    check(done["results"][0]["is_main_result"] and done["result_bytes"] > 0, done)
    equal(len(services(server, session)), 1, "the server of the interpreter")
    equal(code(server, session, "x")["results"][0]["text"], "41", "state is kept")
    equal(code(server, session, "import os; os.environ['GREETING']")["results"][0]["text"], "hello 'there'")
    bad = code(server, session, "1/0")
    equal((bad["exit_code"], bad["code_error"]["name"], bad["results"]), (1, "ZeroDivisionError", []))
    has(bad["stderr"], "ZeroDivisionError")
    equal(code(server, session, "x", context="other")["code_error"]["name"], "NameError", "another context")
    equal(code(server, session, "echo $((6*7))", language="bash")["stdout"], "42\n")
    equal((done["cwd"], code(server, session, "x")["cwd"]), (None, None), "the directory of the context is not known here")
    again = server.want(200, "GET", f"/v1/sessions/{session}/executions/{done['id']}")
    equal((again["results"], again["execution_count"]), (done["results"], 1))
    check("results" not in server.run(session, "true"), "members of code in a command")
    equal(len(services(server, session)), 1, "started once")
    server.delete(session)


def test_the_template(server):
    session = session_of(server, template=INTERPRETER)
    equal(code(server, session, "6*7")["results"][0]["text"], "42")
    equal(len(services(server, session)), 1, "no second one")
    check(server.get(session)["limits"]["memory_bytes"] >= 512 << 20, "its memory")
    server.run(session, "p=$(pgrep -f 'cordon-interpreter serv[e]'); kill -9 $p; while [ -e /proc/$p/exe ]; do sleep 0.05; done", user="root")
    equal(code(server, session, "6*7")["results"][0]["text"], "42", "after its death")
    server.delete(session)


def test_kill_and_time_limit(server):
    session = session_of(server)
    code(server, session, "y = 5")
    x = code(server, session, "import time\nprint('on', flush=True)\ntime.sleep(1000)", wait=False)
    wait_for(lambda: server.execution(x)["stdout_bytes"] > 0, 10, "its start")
    server.want(204, "DELETE", f"/v1/sessions/{session}/executions/{x['id']}")
    equal(server.execution(x)["state"], "killed")
    equal(code(server, session, "y")["results"][0]["text"], "5", "interrupted, and the state is kept")
    late = code(server, session, "import time\ntime.sleep(1000)", timeout="1s")
    equal((late["limit"], late["state"]), ("timeout", "killed"))
    equal(code(server, session, "y")["results"][0]["text"], "5")
    server.delete(session)


def test_restart_of_the_daemon(server):
    session = session_of(server)
    code(server, session, "y = 5")
    x = code(server, session, "import time\nfor i in range(20): time.sleep(0.1)\ny", wait=False)
    wait_for(lambda: server.execution(x)["state"] == "running", 10)
    server.kill("cordond")
    server.wait_ready()
    done = server.ended(x)
    equal(done["exit_code"], 0)
    equal([r["text"] for r in server.execution(x)["results"]], ["5"], "what came while there was no daemon, too")
    equal(code(server, session, "y")["results"][0]["text"], "5")
    equal(len(services(server, session)), 1)
    server.delete(session)


def test_results_of_a_hostile_cell(server):
    session = hostile(server)
    done = code(server, session, """
echo '{"type":"result","text":"good","png":"%s"}' >&3
echo 'nonsense' >&3
printf '{"type":"result","text":"\\377"}\\n' >&3
echo '{"type":"result","a":%s}' >&3
echo '[1]' >&3
echo '{"type":"number_of_executions","execution_count":-1}' >&3
echo '{"type":"result","text":"no end' >&3
echo to stdout; echo to stderr >&2
""" % (PNG, "[" * 100 + "]" * 100))
    equal([r["text"] for r in done["results"]], ["good"])
    equal(done["results"][0]["png"], PNG)
    equal((done["results_dropped"], done["execution_count"], done["code_error"]), (6, None, None))
    equal((done["stdout"], done["stderr"]), ("to stdout\n", "to stderr\n"))
    _, _, raw = server.request("GET", f"/v1/sessions/{session}/executions/{done['id']}/output?stream=result", raw=True)
    equal((len(raw), raw.split(b"\n")[1]), (done["result_bytes"], b"nonsense"))
    _, _, both = server.request("GET", f"/v1/sessions/{session}/executions/{done['id']}/output", raw=True)
    equal(sorted(both.split(b"\n")), [b"", b"to stderr", b"to stdout"], "not in both")
    server.delete(session)


def test_bounds(server):
    """More than an answer shows, and more than the execution may write."""
    session = hostile(server)
    big = "head -c 1000000 /dev/zero | tr '\\0' x"
    done = code(server, session, f"""
for i in 1 2 3 4 5 6 7 8 9 10; do printf '{{"type":"result","text":"' >&3; {big} >&3; echo '"}}' >&3; done
""")
    check(6 <= len(done["results"]) <= 8, f"{len(done['results'])} results")
    check(done["results_dropped"] >= 1 and done["result_bytes"] > 10_000_000, done["result_bytes"])
    done = code(server, session, "yes '{\"type\":\"result\"}' | head -c 3000000 >&3; echo end", output_limit="64K")
    equal((done["output_truncated"], done["limit"], done["exit_code"]), (True, "output", 0))
    check(len(done["results"]) == 1000, len(done["results"]))
    # An MCP client has the results among the first lines.
    one = 'echo \'{"type":"result","text":"r"}\' >&3'
    for lines, shown in ((990, ["r", "r"]), (5000, ["r"])):
        got = Client(server).call("run", session_id=session, language="python", code=f"{one}; yes x | head -n {lines} >&3; {one}")
        equal(([r["text"] for r in got["results"]], got["more_results"]), (shown, lines > 1000))
    # Nobody reads descriptor 3 of a command: it has none.
    equal(server.run(session, "echo x >&3")["exit_code"], 2)
    server.delete(session)


def test_slow_readers(server):
    """Answers that nobody reads are counted, 128 MiB for an account; nothing else of them stays in memory."""
    session = hostile(server)
    done = code(server, session, "printf '{\"type\":\"result\",\"text\":\"' >&3; head -c 8388500 /dev/zero | tr '\\0' x >&3; "
                "echo '\"}' >&3")
    equal(len(done["results"]), 1)
    before = rss(server.pid("cordond"))
    readers = []
    for _ in range(40):
        reader = socket.create_connection(server.address, timeout=60 * level.PATIENCE)
        readers.append(reader)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(f"GET /v1/sessions/{session}/executions/{done['id']} HTTP/1.1\r\nHost: x\r\n"
                       f"X-API-Key: {server.key}\r\n\r\n".encode())
    for reader in readers:
        equal(reader.recv(12), b"HTTP/1.1 200")
    grown = rss(server.pid("cordond")) - before
    for reader in readers:
        reader.close()
    check(grown < 170 << 20, f"{grown >> 20} MiB more")
    server.delete(session)


def test_streams(server):
    session = hostile(server)
    x = code(server, session, "echo a; sleep 0.2; echo '{\"type\":\"result\",\"text\":\"r\"}' >&3; sleep 0.2; echo b", wait=False)
    status, _, body = server.request("GET", f"/v1/sessions/{session}/executions/{x['id']}/events", raw=True)
    equal(status, 200)
    events = [e for e in body.decode().replace("\r", "").split("\n\n") if "data:" in e]
    seen = [(e.split("event: ")[1].split("\n")[0], json.loads(e.split("data: ")[1].split("\n")[0])) for e in events]
    equal([n for n, _ in seen], ["start", "stdout", "result", "stdout", "exit"])
    equal(seen[2][1]["text"], '{"type":"result","text":"r"}\n')
    server.delete(session)


def test_masks(server):
    server.want(201, "POST", "/v1/secrets", {"name": "k", "value": "s3cr3t-\"quoted\"-value", "ways": ["env"]})
    session = hostile(server, secrets=[{"name": "k", "as": "env", "env": "K"}])
    done = code(server, session, "printf '{\"type\":\"result\",\"text\":\"s3cr3t-\\\\\"quoted\\\\\"-value\"}\\n' >&3")
    check("quoted" not in json.dumps(done) and len(done["results"]) == 1, done["results"])
    server.delete(session)
    server.want(204, "DELETE", "/v1/secrets/k")


def test_masks_what_python_shows(server):
    """A key of several lines, as repr() and then JSON write it; a value with a character that JSON writes as a pair."""
    values = {"pem": "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END KEY-----\n", "smile": "pass\U0001f600word-\"x\\y"}
    for name, value in values.items():
        server.want(201, "POST", "/v1/secrets", {"name": name, "value": value, "ways": ["env"]})
    session = session_of(server, secrets=[{"name": n, "as": "env", "env": n.upper()} for n in values])
    for name, part in (("PEM", "hkiG9w0B"), ("SMILE", "word-")):
        value = f"__import__('os').environ['{name}']"
        for shown in (value, f"{{'k': {value}}}", f"raise KeyError({value})", f"print(__import__('json').dumps(repr({value})))"):
            done = code(server, session, shown)
            text = json.dumps([done["results"], done["code_error"], done["stdout"], done["stderr"]], ensure_ascii=False)
            check(part not in text and "***" in text, f"{shown}: {text}")
            _, _, raw = server.request("GET", f"/v1/sessions/{session}/executions/{done['id']}/output?stream=result", raw=True)
            check(part.encode() not in raw, f"{shown}: {raw}")
    server.delete(session)
    for name in values:
        server.want(204, "DELETE", f"/v1/secrets/{name}")


def test_requests(server):
    session = session_of(server)
    path = f"/v1/sessions/{session}/executions"
    for body, word in (({"code": "1", "command": "true"}, "one of"), ({"code": "1", "argv": ["true"]}, "one of"),
                       ({"code": "1", "language": "--x"}, "language"), ({"code": "1", "context": "a b"}, "context"),
                       ({"code": "1", "context": ""}, "context"), ({"code": "1", "language": "x" * 64}, "language"),
                       ({"code": "1", "language": "cobol"}, "must be one of python, javascript (js)"),
                       ({"code": "1", "stdin": "x"}, "stdin"), ({"code": "1", "tty": {"rows": 1, "cols": 1}}, "tty"),
                       ({"code": "1", "user": "root"}, "user"), ({"code": "1", "env": {"A B": "1"}}, "env"),
                       ({"code": "1", "secrets": [{"name": "k", "as": "env", "env": "K"}]}, "outlives"),
                       ({"command": "true", "language": "python"}, "language"), ({"code": 1}, "code")):
        server.refused(400, "invalid", "POST", path, body, word)
    done = code(server, session, "import os; os.getcwd()", cwd="/tmp", context="there", record="text")
    equal((done["results"][0]["text"], done["command"], done["cwd"]), ("/tmp", "import os; os.getcwd()", "/tmp"))
    equal(code(server, session, "import os; os.getcwd()", cwd="/usr")["results"][0]["text"], "/usr", "the default one has run nothing yet")
    moved = code(server, session, "import os; os.getcwd()", cwd="/tmp")
    equal((moved["exit_code"], moved["results"], moved["code_error"]["name"]), (2, [], "InterpreterError"))
    has(moved["code_error"]["value"], "the default context of python has its directory already, /usr; use another context for /tmp")
    server.delete(session)


def test_variables_of_a_call(server):
    session = session_of(server, env={"OURS": "of the session"})
    read = {"python": "import os; [os.environ.get(name) for name in ('OURS', 'MORE', 'THIRD')]",
            "bash": "echo ${OURS-none} ${MORE-none}"}
    odd = "it's \\ \"quoted\" \u00e9\n$HOME="
    done = code(server, session, read["python"], env={"OURS": "of the call", "MORE": odd, "THIRD": ""}, cwd="/tmp")
    equal(done["results"][0]["json"], ["of the call", odd, ""])
    equal(code(server, session, read["python"])["results"][0]["json"], ["of the session", None, None], "restored")
    equal(code(server, session, "1/0", env={"MORE": "x"})["code_error"]["name"], "ZeroDivisionError")
    equal(code(server, session, read["python"])["results"][0]["json"], ["of the session", None, None], "after an error, too")
    equal(code(server, session, read["bash"], language="bash", env={"MORE": "2"})["stdout"], "of the session 2\n")
    equal(code(server, session, read["bash"], language="bash")["stdout"], "of the session none\n")
    many = {f"V{i}": str(i) for i in range(256)}
    equal(code(server, session, "import os; sum(int(os.environ[f'V{i}']) for i in range(256))", env=many)["results"][0]["text"], str(255 * 128))
    out = cli(server, "exec", "--lang", "python", "-e", "MORE=a=b", "-e", "OURS=c", session, "--", "import os; print(os.environ['MORE'], os.environ['OURS'])")[0]
    equal(out, "a=b c\n")
    server.delete(session)


def cli(server, *words, code=0, text=None):
    done = subprocess.run([server.program, *words], capture_output=True, timeout=60 * level.PATIENCE, input=text or b"",
                          env={**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key})
    equal(done.returncode, code, f"{words}: {done.stderr.decode()}")
    return done.stdout.decode(), done.stderr.decode()


def test_command_line(server):
    session = session_of(server)
    equal(cli(server, "exec", "--lang", "python", session, "--", "x = 6\nprint('out')\nx * 7")[0], "out\n42\n")
    equal(cli(server, "exec", "--lang", "python", session, "--", "-", text=b"x + 1")[0], "7\n")
    equal(cli(server, "exec", "--lang", "python", "--context", "o", session, "--", "'x' in globals()")[0], "False\n")
    has(cli(server, "exec", "--lang", "python", session, "--", "1/0", code=1)[1], "ZeroDivisionError")
    for words, part in ((["--context", "c", session, "--", "true"], "only with --lang"),
                        (["--lang", "python", session, "--", "a", "b"], "one argument"),
                        (["--lang", "python", "--tty", session, "--", "1"], "not with --tty")):
        has(cli(server, "exec", *words, code=2)[1], part)
    shown = json.loads(cli(server, "exec", "--lang", "python", "--json", session, "--", "print(5)\n6*7")[0])
    equal(([r["text"] for r in shown["results"]], shown["code_error"], shown["stdout"]), (["42"], None, "5\n"), "--json")
    equal(cli(server, "logs", session, shown["id"])[0], "5\n42\n", "what logs prints")
    has(cli(server, "exec", session, "--", "nosuchprogram", code=127)[1], "cordon: nosuchprogram: no such program in the session")
    has(cli(server, "run", "--server", "--lang", "bash", "--", "echo $((6*7))")[0], "42")
    server.delete(session)


def test_saved_results(server):
    session = hostile(server)
    script = (f"echo '{{\"type\":\"result\",\"text\":\"<Figure>\",\"png\":\"{PNG[:40]}\\\\n{PNG[40:]}\",\"html\":\"<b>\"}}' >&3; "
              "echo nonsense >&3; echo '{\"type\":\"result\",\"png\":\"!\"}' >&3")
    with tempfile.TemporaryDirectory() as folder:
        out, err = cli(server, "exec", "--lang", "python", "--save-dir", folder, session, "--", script)
        equal((out, sorted(os.listdir(folder))), ("<Figure>\n", ["result-1.html", "result-1.png"]), err)
        with open(os.path.join(folder, "result-1.png"), "rb") as f:
            equal(f.read(), base64.b64decode(PNG))
        has(err, "is left out")
    # A number that no parser of 64 bits holds takes nothing away, and files have a bound.
    out, err = cli(server, "exec", "--lang", "python", session, "--",
                   f"echo '{{\"type\":\"result\",\"text\":\"big\",\"json\":{2**100}}}' >&3")
    equal((out, err), ("big\n", ""))
    with tempfile.TemporaryDirectory() as folder:
        os.symlink("/etc/hostname", os.path.join(folder, "result-1.svg"))
        out, err = cli(server, "exec", "--lang", "python", "--save-dir", folder, session, "--",
                       "yes '{\"type\":\"result\",\"text\":\"t\",\"svg\":\"s\",\"html\":\"h\"}' | head -n 700 >&3")
        equal((len(os.listdir(folder)), out), (1000, "t\n" * 700))
        equal(err.count("no more results are saved"), 1, err[-200:])
        check(not os.path.islink(os.path.join(folder, "result-1.svg")), "the link is replaced, not written through")
    server.delete(session)


def test_an_interpreter_for_a_template(server):
    base = [] if TEMPLATE == "host" else ["--from", TEMPLATE]
    has(cli(server, "template", "interpreter", *base, "--name", "mine")[0], "mine")
    has(cli(server, "template", "interpreter", "--from", "nosuch", code=3)[1], "nosuch")
    row = server.want(200, "GET", "/v1/templates/mine")
    equal((row["interpreter"], row["start_restart"], row["provenance"]["template"]), (True, True, TEMPLATE))
    session = session_of(server, template="mine")
    equal(code(server, session, "6*7")["results"][0]["text"], "42")
    equal(len(services(server, session)), 1, "its start command")
    server.delete(session)
    server.want(204, "DELETE", "/v1/templates/mine")
    program = "/opt/cordon/bin/cordon-interpreter"  # modules that are imported early, as in doc/interpreter.md
    server.want(201, "POST", "/v1/templates", {"name": "warm", "from": TEMPLATE, "interpreter": True, "start_restart": True,
                                               "start_command": f"env CORDON_INTERPRETER_WARM=wave {program} serve", "ready_command": f"{program} ready"})
    session = session_of(server, template="warm", env={"A": "b"})
    equal(code(server, session, "import sys, os; ('wave' in sys.modules, os.environ['A'])")["results"][0]["text"], "(True, 'b')")
    equal(len(services(server, session)), 1, "its start command")
    server.delete(session)
    server.want(204, "DELETE", "/v1/templates/warm")


if __name__ == "__main__":
    level.ROOT = languages_root
    run_tests(globals(), Interpreted, pool_size=2, pool_started_size=1)

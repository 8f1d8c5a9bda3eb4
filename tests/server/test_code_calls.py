#!/usr/bin/python3 -B
"""Goal: code that E2B's clients send to port 49999 of a session is an execution as far as records and masking go: no code
runs without a record, the record ends exactly once whatever ends the call, no value of a secret comes back, in
whatever kind of line and however lines divide it, and what came back is kept in the log of the execution, within its bounds.

    test_code_calls.py CORDON [name ...]
"""
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time

from harness import Failed, check, equal, has, rss, run_tests, wait_for
import languages_root  # after harness, which knows where it is
import level
from level import LEVEL, PATIENCE, differs
from leveled import INTERPRETER, Interpreted

KILLS = True
VALUE = 's3cr3t-"quoted"-\\value-\u00e9'
PLAIN = "pl41n-secret-word"
NUMBER = "31415926535"
ENV = [{"name": n, "as": "env", "env": n.upper()} for n in ("odd", "plain", "number")]
SLEEP = "print('on', flush=True)\nimport time\ntime.sleep(1000)"


def link(server, session, body, path="/execute", method="POST"):
    """A request to the interpreter's port, sent."""
    c = http.client.HTTPConnection(*server.address, timeout=60 * PATIENCE)
    c.request(method, path, body if isinstance(body, bytes) else json.dumps(body),
              {"E2b-Sandbox-Id": session, "E2b-Sandbox-Port": "49999", "X-API-Key": server.key, "Content-Type": "application/json"})
    return c


def execute(server, session, code, status=200, **more):
    c = link(server, session, {"code": code, **more})
    answer = c.getresponse()
    data = answer.read()
    c.close()
    equal(answer.status, status, f"{code}: {data[:500]}")
    return [json.loads(line) for line in data.splitlines()] if status == 200 else data


def of(events, kind):
    return [e for e in events if e["type"] == kind]


def printed(events, stream="stdout"):
    return "".join(e["text"] for e in of(events, stream))


def calls(server, session):
    """The records of calls, oldest first."""
    rows = server.want(200, "GET", f"/v1/sessions/{session}/executions?order=asc&limit=1000")["executions"]
    return [x for x in rows if not x["background"] and x["command"] is None]


def last(server, session):
    return calls(server, session)[-1]


def kept(server, x, stream="stdout"):
    """What the log of a call has, and whether it is all."""
    status, headers, data = server.request("GET", f"/v1/sessions/{x['session_id']}/executions/{x['id']}/output?stream={stream}", raw=True)
    equal(status, 200, data)
    return data.decode(), headers.get("x-cordon-truncated") == "true"


def kept_as_sent(server, session, events):
    """The log of the last call has what its client got."""
    x = last(server, session)
    for stream in ("stdout", "stderr"):
        equal(kept(server, x, stream), (printed(events, stream), False), stream)
    lines = [json.loads(line) for line in kept(server, x, "result")[0].splitlines()]
    equal(lines, [e for e in events if e["type"] in ("result", "error", "number_of_executions")])
    equal([x[f"{s}_bytes"] for s in ("stdout", "stderr", "result")], [len(kept(server, x, s)[0].encode()) for s in ("stdout", "stderr", "result")])


def sha(code):
    return hashlib.sha256(code.encode()).hexdigest()


def make_secrets(server):
    for name, value in (("odd", VALUE), ("plain", PLAIN), ("number", NUMBER)):
        server.request("DELETE", f"/v1/secrets/{name}")  # of a test that failed
        server.want(201, "POST", "/v1/secrets", {"name": name, "value": value, "ways": ["env"]})


def session_with_secrets(server):
    make_secrets(server)
    return server.create(template=INTERPRETER, secrets=ENV)["id"]


def forget_secrets(server, session):
    server.delete(session)
    for name in ("odd", "plain", "number"):
        server.want(204, "DELETE", f"/v1/secrets/{name}")


def test_a_record_for_each_call(server):
    session = server.create(template=INTERPRETER)["id"]
    code = "print('h\u00e9llo')\n6 * 7"
    events = execute(server, session, code)
    equal((printed(events), of(events, "result")[0]["text"]), ("h\u00e9llo\n", "42"))
    x = last(server, session)
    equal((x["state"], x["exit_code"], x["command"], x["command_sha256"], x["language"], x["context"]),
          ("exited", 0, None, sha(code), "python", None))
    equal((x["stdout_bytes"], x["stderr_bytes"], x["background"], x["output_truncated"]), (7, 0, False, False))
    kept_as_sent(server, session, events)
    check(x["result_bytes"] > 0 and x["ended_at"] and x["error"] is None, x)
    told = [e for e in server.want(200, "GET", f"/v1/sessions/{session}/events")["events"] if e["execution_id"] == x["id"]]
    equal([e["type"] for e in told], ["execution.started", "execution.ended"])
    equal((told[0]["data"]["kind"], told[1]["data"]["exit_code"]), ("code", 0))
    ended = told[1:]
    check(ended[0]["actor"] and ended[0]["actor"]["request_id"], ended)
    done = subprocess.run([server.program, "ls", session], capture_output=True, text=True, timeout=60 * PATIENCE,
                          env={**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key})
    check(any(x["id"] in line and "(python code)" in line for line in done.stdout.splitlines()), done)
    done = subprocess.run([server.program, "logs", session, x["id"]], capture_output=True, text=True, timeout=60 * PATIENCE,
                          env={**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key})
    check(done.returncode == 0 and "h\u00e9llo\n" in done.stdout, done)
    kept_as_sent(server, session, execute(server, session, "1/0", language=" Python "))
    x = last(server, session)
    equal((x["state"], x["exit_code"], x["language"]), ("exited", 1, "python"))
    c = link(server, session, {"language": "bash"}, "/contexts")
    context = json.loads(c.getresponse().read())["id"]
    execute(server, session, "exit 3", context_id=context)
    equal((last(server, session)["context"], last(server, session)["exit_code"]), (context, 1))
    has(execute(server, session, "1", 500, language="cobol").decode(), "cobol")
    equal((last(server, session)["exit_code"], last(server, session)["language"]), (2, "cobol"))
    equal([x["command_sha256"] for x in calls(server, session)], [sha(c) for c in (code, "1/0", "exit 3", "1")], "and no other")
    native = server.want(200, "POST", f"/v1/sessions/{session}/executions?wait=true", {"code": "1", "context": "mine"})
    equal((native["language"], native["context"]), ("python", "mine"))
    server.delete(session)


FILL = """import os
f = os.open('/tmp/big', os.O_CREAT | os.O_WRONLY)
try:
    while True:
        os.write(f, bytes(1 << 20))
except OSError:
    import time; time.sleep(0.2)  # until a sample finds it
os.close(f)
os.unlink('/tmp/big')
"""
# In a context that lives on: the kernel itself is no child of the call.
HOG = "import subprocess; subprocess.run(['python3', '-c', 'bytearray(2000 << 20)'])"
FORKS = """import subprocess
made = []
try:
    while True:
        made.append(subprocess.Popen(['sleep', '1000']))
except OSError:
    [p.kill() or p.wait() for p in made]
"""


def hits(server, name):
    found = re.search(rf'^cordon_limit_hits_total{{limit="{name}"}} (\d+)$', server.want(200, "GET", "/metrics").decode(), re.M)
    return int(found.group(1)) if found else 0


def test_limits_are_told(server):
    """Also of code that ends well: in the record that a client finds after the answer, as an event, in the metrics; and not of the next."""
    session = server.create(template=INTERPRETER, limits={"memory": "768M", "disk": "64M", "pids": 100})["id"]
    execute(server, session, "1")
    rows = [("disk", FILL, 0), ("disk", FILL + "1/0", 1)]
    rows += [] if differs("memory") else [("memory", HOG, 0), ("memory", HOG + "; 1/0", 1)]
    rows += [] if differs("pids") else [("pids", FORKS, 0)]
    for name, code, exit_code in rows:
        before = hits(server, name)
        events = execute(server, session, code)
        x = last(server, session)
        equal((x["state"], x["exit_code"], x["limits_hit"]), ("exited", exit_code, [name]), f"{code} {events}")
        events = server.want(200, "GET", f"/v1/sessions/{session}/events?limit=1000")["events"]
        told = [e["data"]["limits_hit"] for e in events if e["type"] == "execution.limit" and e["execution_id"] == x["id"]]
        equal((told, hits(server, name) - before), ([name], 1), name)
        execute(server, session, "1")
        equal(last(server, session)["limits_hit"], [], "of the next one")
        equal(server.run(session, "exit 3")["limit"], None, "of a command after it")
    execute(server, session, FILL.split("os.close")[0])
    execute(server, session, "1/0")
    equal((last(server, session)["limit"], last(server, session)["limits_hit"]), ("disk", ["disk"]), "of one that fails on a full disk")
    execute(server, session, "1")
    equal(last(server, session)["limits_hit"], [], "of one that ends well on it")
    server.delete(session)


def test_long_code_in_chunks(server):
    session = server.create(template=INTERPRETER)["id"]
    code = "x = '''" + "\u00e9\n\t" * 70_000 + "'''\nlen(x)"
    c = http.client.HTTPConnection(*server.address, timeout=60 * PATIENCE)
    body = json.dumps({"code": code}, ensure_ascii=False).encode()
    c.request("POST", "/execute", iter([body[i : i + 70_001] for i in range(0, len(body), 70_001)]),
              {"E2b-Sandbox-Id": session, "E2b-Sandbox-Port": "49999", "X-API-Key": server.key}, encode_chunked=True)
    events = [json.loads(line) for line in c.getresponse().read().splitlines()]
    equal(of(events, "result")[0]["text"], "210000")
    equal(last(server, session)["command_sha256"], sha(code))
    server.delete(session)


def test_a_slow_client(server):
    """An answer that is larger than all buffers on its way, read late: it comes whole."""
    session = server.create(template=INTERPRETER)["id"]
    c = link(server, session, {"code": "print('x' * (24 << 20), end='')"})
    answer = c.getresponse()
    time.sleep(1)  # until all buffers are full, which cannot be seen from here
    events = [json.loads(line) for line in answer.read().splitlines()]
    equal((len(printed(events)), events[-1]["type"]), (24 << 20, "end_of_execution"))
    server.delete(session)


def test_masks_every_kind_of_line(server):
    session = session_with_secrets(server)
    odd, plain, number = (f"os.environ['{n}']" for n in ("ODD", "PLAIN", "NUMBER"))
    execute(server, session, "import os, sys, json")
    for code, stars in {
        f"print({plain}, 'after')": 1,
        f"print({odd})": 1,
        f"print(repr({odd}), json.dumps({odd}))": 2,
        f"print({plain}, file=sys.stderr)": 1,
        "os.system('printenv PLAIN; printenv ODD >&2')": 2,
        plain: 1,
        f"[{odd}, {plain}, {{{plain}: {odd}}}]": 1,
        f"raise KeyError({odd})": 1,
        f"raise ValueError({plain})": 1,
        f"class H:\n  def _repr_html_(self): return '<b>' + {odd} + '</b>'\n  def __repr__(self): return {plain}\nH()": 1,
        f"[int({number}), -float({number}), 1]": 0,
        f"import base64; print(base64.b64encode({plain}.encode()).decode())": 1,
    }.items():
        events = execute(server, session, code)
        text = json.dumps(events) + json.dumps(events, ensure_ascii=False)
        for value in (VALUE, PLAIN, NUMBER, "quoted", "secret-word", "1415926535"):
            check(value not in text, f"{code}: {value} in {text}")
        check(text.count("***") >= stars, f"{code}: {text}")
        equal(events[-1]["type"], "end_of_execution", code)
        kept_as_sent(server, session, events)
    forget_secrets(server, session)


def covered(server, session, code):
    """Its output is PLAIN, written byte by byte, with a bar behind it. What has left before the last byte came is shown: on a
    machine that is busy with other work the bytes take longer than 25 ms now and then, but not always."""
    for _ in range(10):
        events = execute(server, session, code)
        text = printed(events)
        shown = text.find("*")
        check(0 <= shown < len(PLAIN), text)
        equal(text, PLAIN[:shown] + "*" * (len(PLAIN) - shown) + "|")
        if shown == 0 or differs("values printed byte by byte"):
            return events
    raise Failed("a value is never covered as a whole")


def test_masks_what_lines_divide(server):
    """A value in many writes, with output of the other stream and results in between; and what is not one stays."""
    session = session_with_secrets(server)
    write = ("import os, sys, time\n"
             "for c in os.environ['PLAIN'] + '|':\n  sys.stdout.write(c); sys.stdout.flush()\n  sys.stderr.write('e'); sys.stderr.flush()\n")
    events = covered(server, session, write)
    equal(printed(events, "stderr"), "e" * (len(PLAIN) + 1))
    events = covered(server, session, write.replace("sys.stderr.write('e')", "display(1)"))
    equal(len(of(events, "result")), len(PLAIN) + 1)
    # Many lines and characters that pieces divide.
    text = "".join(f"{i} \u00e9\U0001f600\x00\x1b[1m\n" for i in range(3000))
    code = f"t = ''.join(f'{{i}} \\u00e9\\U0001f600\\x00\\x1b[1m\\n' for i in range(3000))\nprint(t + {PLAIN[:6]!r} + t, end='')"
    equal(printed(execute(server, session, code)), text + PLAIN[:6] + text, "what is no value")
    x = last(server, session)
    equal(x["stdout_bytes"], len((text + PLAIN[:6] + text).encode()))
    equal(kept(server, x), (text + PLAIN[:6] + text, False))
    # A result of some MiB, masked in pieces.
    events = execute(server, session, "class B:\n  def _repr_html_(self): return ('x' * 99_000 + os.environ['ODD']) * 40\nB()")
    html = of(events, "result")[0]["html"]
    check("quoted" not in html and html.startswith("x" * 99_000 + "***") and html.count("x" * 99_000 + "*") == 40, html[98_990:99_040])
    kept_as_sent(server, session, events)
    # Text that waits comes without anything behind it.
    c = link(server, session, {"code": SLEEP})
    answer, seen = c.getresponse(), b""
    while b'"text":"on\\n"' not in seen:
        seen += answer.readline()
    c.close()
    forget_secrets(server, session)


def begun(server, session, code=SLEEP):
    """A call that sleeps: its connection, and its record."""
    c = link(server, session, {"code": code})
    answer = c.getresponse()
    while b'"on' not in answer.readline():
        pass
    x = last(server, session)
    equal((x["state"], x["ended_at"]), ("running", None))
    equal(kept(server, x), ("on\n", False), "what the client has is in the log")
    return c, answer, x


def ended_once(server, x, *why, limit="killed"):
    now = server.ended(x)
    equal((now["state"], now["limit"]), ("killed", limit))
    check(now["error"]["message"] in why, f"{now['error']}, not {why}")
    events = server.want(200, "GET", f"/v1/sessions/{x['session_id']}/events")["events"]
    equal(len([e for e in events if e["execution_id"] == x["id"] and e["type"] == "execution.ended"]), 1, "one end")
    equal(now["output_truncated"], True, "the rest of its output is not known")


def test_a_client_that_goes_away(server):
    session = server.create(template=INTERPRETER)["id"]
    execute(server, session, "kept = 5")
    c, answer, x = begun(server, session)
    answer.close()
    c.close()
    ended_once(server, x, "the client went away")
    equal(kept(server, x), ("on\n", True))
    equal(of(execute(server, session, "kept"), "result")[0]["text"], "5", "interrupted")
    server.delete(session)


def test_a_request_that_ends_it(server):
    session = server.create(template=INTERPRETER)["id"]
    execute(server, session, "kept = 5")
    c, answer, x = begun(server, session)
    path = f"/v1/sessions/{session}/executions/{x['id']}"
    equal(server.request("POST", f"{path}/signals", {"signal": "INT"})[0], 409, "it has no process")
    server.want(204, "DELETE", path)
    ended_once(server, x, "ended by a request")
    equal(kept(server, x), ("on\n", True))
    try:
        answer.read()
        check(False, "the answer looks complete")
    except http.client.IncompleteRead:
        pass
    server.want(204, "DELETE", path)
    got = execute(server, session, "kept")
    check(of(got, "result"), f"after the interrupt: {got}")
    equal(of(got, "result")[0]["text"], "5", "interrupted")
    server.delete(session)


UNNOTICED = """import signal, threading, time
stop = threading.Event()
threading.Thread(target=stop.wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
try:
    print('on', flush=True)
    time.sleep(1000)  # until it is interrupted
finally:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    stop.set()
"""


def test_an_interrupt_that_breaks_no_call_off(server):
    """Another thread takes the signal, as if it had come just before the main thread went to sleep: the kernel is
    woken, and not killed."""
    session = server.create(template=INTERPRETER)["id"]
    execute(server, session, "kept = 5")
    c, answer, x = begun(server, session, UNNOTICED)
    answer.close()
    c.close()
    ended_once(server, x, "the client went away")
    got = execute(server, session, "kept")
    check(of(got, "result"), f"after the interrupt: {got}")
    server.delete(session)


def test_death_of_kernel_server_and_cell(server):
    session = server.create(template=INTERPRETER)["id"]
    events = execute(server, session, "import os; os.kill(os.getpid(), 9)")
    equal(of(events, "error")[0]["name"], "ContextRestarting")
    equal((last(server, session)["state"], last(server, session)["exit_code"]), ("exited", 1), "a kernel")
    one, _, x = begun(server, session)
    server.run(session, "pkill -9 -f 'cordon-interpreter serv[e]'", user="root")
    ended_once(server, x, "the interpreter ended")
    equal(kept(server, x), ("on\n", True))
    wait_for(lambda: link(server, session, None, "/health", "GET").getresponse().status == 200, 30, "another interpreter")
    one, _, x = begun(server, session)
    os.kill(server.cell_pids(session)[0], signal.SIGKILL)
    # Of a guest, its connections and the channel of its cell end with one process, cordon-shim, and may be noticed in any order.
    ended_once(server, x, "the session ended", *([] if LEVEL == "container" else ["the interpreter ended"]))


def test_a_daemon_that_is_killed(server):
    session = server.create(template=INTERPRETER)["id"]
    paused = server.create(template=INTERPRETER)["id"]
    execute(server, session, "kept = 5")
    one, _, x = begun(server, session)
    two, _, y = begun(server, paused)
    server.want(200, "POST", f"/v1/sessions/{paused}/pause", {})
    server.restarted("cordond")
    ended_once(server, x, "the server was restarted")
    equal(kept(server, x), ("on\n", True))
    ended_once(server, y, "the session was paused" if differs("memory images") else "the server was restarted")
    one.close(), two.close()
    equal(server.get(paused)["state"], "paused", "nobody resumed it")
    equal(of(execute(server, session, "kept"), "result")[0]["text"], "5", "interrupted")
    server.delete(session)
    server.delete(paused)


def test_no_code_without_a_record(server):
    session = server.create(template=INTERPRETER)["id"]
    mark = "open('/tmp/ran', 'w')"
    for body in (f'{{"code":"{mark}","context_name":"hidden"}}', f'{{"code":"{mark} #\\ud800"}}', f'{{"code":"{mark} #\\udc00\\ud800"}}'):
        c = link(server, session, body.encode())
        answer = c.getresponse()
        equal(answer.status, 400, body)
        has(answer.read().decode(), "context_id", "what to do")
    for body in (f'{{"code":"{mark}"', f'{{"code":"{mark}"}} x', f'[{{"code":"{mark}"}}]x', "[" * 40 + "]" * 40):
        c = link(server, session, body.encode())
        equal(c.getresponse().status, 400, body[:60])
    for body in ("{}", '{"code":5}', '["code"]'):
        check(link(server, session, body.encode()).getresponse().status in (400, 422), body)
    equal(calls(server, session), [], "nothing was run")
    held = [begun(server, session)[0] for _ in range(1)]
    while True:  # in contexts of their own, so that each of them runs
        c = link(server, session, {}, "/contexts")
        context = json.loads(c.getresponse().read())["id"]
        c = link(server, session, {"code": SLEEP, "context_id": context})
        answer = c.getresponse()
        held.append(c)
        if answer.status != 200:
            break
        while b'"on' not in answer.readline():
            pass
    equal((answer.status, len(held)), (429, 6), answer.read())
    c = link(server, session, {"code": mark, "context_id": context})
    equal(c.getresponse().status, 429)
    for c in held:
        c.close()
    wait_for(lambda: server.get(session)["executions_running"] == 1, 10, "their ends")
    equal(server.run(session, "test -e /tmp/ran")["exit_code"], 1, "refused code does not run")
    server.delete(session)


SERVER = """
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        data = b'{"type":"stdout","text":"%s"}\\n' % __import__('os').environb[b'PLAIN']
        self.send_response(200); self.send_header('Content-Length', str(len(data))); self.end_headers(); self.wfile.write(data)
http.server.HTTPServer(('127.0.0.1', 49999), H).serve_forever()
"""


def test_other_sessions(server):
    """A session of another template has an interpreter after its first code; a user's own server at that port is none."""
    make_secrets(server)
    session = server.create(secrets=ENV)["id"]
    server.want(200, "POST", f"/v1/sessions/{session}/executions?wait=true", {"code": "import os"})
    equal(printed(execute(server, session, "print(os.environ['PLAIN'])")), "*" * len(PLAIN) + "\n")
    equal(last(server, session)["command_sha256"], sha("print(os.environ['PLAIN'])"))
    # Root in the cell ends it, and answers in its place: also for a daemon that never saw it run.
    server.run(session, "mv /opt/cordon/bin/cordon-interpreter /opt/gone; pkill -9 -f 'cordon-interpreter serv[e]'; "
               "while pgrep -f 'cordon-interpreter serv[e]'; do sleep 0.05; done", user="root")
    server.spawn(session, ["python3", "-c", SERVER], user="root", background=True)
    for code in ("killed", "restarted"):
        wait_for(lambda: server.run(session, ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/49999"])["exit_code"] == 0, 20, "the server")
        check(PLAIN not in printed(execute(server, session, code)), f"{code}: masked")
        # not by its place: a plain execution may have begun in the same millisecond
        check(sha(code) in {x["command_sha256"] for x in calls(server, session)}, "recorded")
        if code == "killed":
            server.restarted("cordond")
    server.delete(session)
    session = server.create(secrets=ENV)["id"]
    server.spawn(session, ["python3", "-c", SERVER], background=True)

    def ask():
        answer = link(server, session, {"code": "1"}).getresponse()
        return answer.status == 200 and answer.read()

    equal(json.loads(wait_for(ask, 20, "the server"))["text"], PLAIN, "passes as it is")
    equal(calls(server, session), [])
    forget_secrets(server, session)



def test_its_log_has_bounds(server):
    """Those of other logs: older ones make room for it, and then it is cut; the answer passes whole in any case."""
    session = server.create(template=INTERPRETER)["id"]
    text = "0123456789abcdef" * 4096
    ids = []
    for i in range(10):  # 10 MiB of 8
        equal(len(printed(execute(server, session, f"print({text!r} * 16, end='')"))), 1 << 20)
        ids.append(last(server, session))
    equal(len(kept(server, ids[-1])[0]), 1 << 20, "the last")
    equal(kept(server, ids[0]), ("", True), "the first made room")
    equal(len(printed(execute(server, session, f"print({text!r} * 192, end='')"))), 12 << 20)
    x = last(server, session)
    got, truncated = kept(server, x)
    check(truncated and x["output_truncated"] and 7 << 20 < len(got) < 8 << 20, f"{len(got)} bytes, {truncated}")
    equal(x["stdout_bytes"], 12 << 20)
    # A log that cannot be written: cordond may make no file there.
    os.chmod(f"{server.state}/output", 0o500)
    try:
        events = execute(server, session, "print('on'); 5")
    finally:
        os.chmod(f"{server.state}/output", 0o700)
    equal((printed(events), of(events, "result")[0]["text"], events[-1]["type"]), ("on\n", "5", "end_of_execution"))
    x = last(server, session)
    equal((x["exit_code"], x["stdout_bytes"], x["output_truncated"], kept(server, x)), (0, 3, True, ("", True)))
    server.delete(session)


HOSTILE = r"""
import os, socket, threading
V = os.environb[b'PLAIN']
def chunk(b): return b'%x\r\n%s\r\n' % (len(b), b)
def answer(c, how):
    head = b'HTTP/1.1 200 OK\r\n'
    lines = head + b'Transfer-Encoding: chunked\r\n\r\n'
    if how == 'long':  # one line of 40 MB, with values in it
        c.sendall(lines + chunk(b'{"type":"result","html":"'))
        for _ in range(400): c.sendall(chunk(b'x' * 99_000 + V + b'\\u00e9'))
        c.sendall(chunk(b'"}\n{"type":"end_of_execution"}\n') + b'0\r\n\r\n')
    elif how == 'short': c.sendall(lines + b''.join(chunk(b'\n' * 60_000) for _ in range(50)) + b'0\r\n\r\n')
    elif how == 'bytes':  # each in a chunk of its own
        text = b'{"type":"stdout","text":"\\u0' + b'\n{"type":"result","text":"' + V + b'\\'
        c.sendall(lines + b''.join(chunk(bytes([b])) for b in text) + b'0\r\n\r\n')
    elif how == 'length': c.sendall(head + b'Content-Length: %d\r\n\r\n' % (len(V) + 20) + V + b'\n{"type":"error","x"}')
    elif how == 'close': c.sendall(head + b'\r\n{"type":"stdout","text":"' + V)
    elif how == 'cut': c.sendall(lines + chunk(b'{"type":"stdout","text":"' + V + b'"}\n') + b'zz')
    elif how == 'gzip': c.sendall(head + b'Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08')
    elif how == 'refused': c.sendall(b'HTTP/1.1 500 no\r\nContent-Length: %d\r\n\r\n' % len(V) + V)
    elif how == 'upgrade': c.sendall(b'HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n')
    elif how == 'headers': c.sendall(head + b'X-Value: ' + V + b'\r\nX-' + V + b': 1\r\nX-Kept: yes\r\nContent-Type: text/' + V + b'\r\nContent-Length: 0\r\n\r\n')
    elif how == 'none': return
    if how == 'silent': threading.Event().wait()
def serve(c):
    got = b''
    while b'}' not in got and b'early' not in got and b'Upgrade' not in got:
        more = c.recv(65536)
        if not more: return c.close()  # it only looked whether the port is open: no thread runs on for it
        got += more
    if b'early' in got:  # before the end of the request
        c.sendall(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n' + chunk(b'{"type":"stdout","text":"soon"}\n'))
        threading.Event().wait()
    answer(c, 'upgrade' if b'Upgrade' in got else got.rsplit(b'"', 2)[1].decode())
    c.close()
l = socket.create_server(('127.0.0.1', 49999), backlog=64)
while True: threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()
"""


def test_a_hostile_interpreter(server):
    """Whatever answers in its place: no value comes back, memory has its bound, and each call has a record that ends."""
    session = session_with_secrets(server)
    # Its service is started again a second later, as a program that listens nowhere and prints nothing: one that failed would
    # print why, and the log of a call that has filled the session's room would give way to that.
    server.run(session, "cd /opt/cordon/bin; mv cordon-interpreter /opt/gone; printf '#!/bin/sh\\nexec sleep 1000000\\n' > cordon-interpreter; "
               "chmod 755 cordon-interpreter; pkill -9 -f 'cordon-interpreter serv[e]'; "
               "while pgrep -f 'cordon-interpreter serv[e]'; do sleep 0.05; done", user="root")
    server.spawn(session, ["python3", "-c", HOSTILE], user="root", background=True)
    equal(server.run(session, ["bash", "-c", "until (exec 3<>/dev/tcp/127.0.0.1/49999) 2>/dev/null; do sleep 0.1; done"], timeout=f"{20 * PATIENCE}s")["exit_code"], 0)
    pid, before = server.pid("cordond"), rss(server.pid("cordond"))
    for how, code in (("long", 0), ("short", 1), ("bytes", 1), ("length", 1), ("close", 1), ("cut", 137), ("gzip", 1), ("refused", 2), ("upgrade", 137), ("none", 137), ("headers", 1)):
        c = link(server, session, {"code": how})
        answer, data = c.getresponse(), b""
        try:
            while piece := answer.read(1 << 20):
                data += piece
        except http.client.IncompleteRead as e:
            data += e.partial
        c.close()
        check(PLAIN.encode() not in data, f"{how}: {data[:300]}")
        check(PLAIN not in str(answer.getheaders()), f"{how}: {answer.getheaders()}")
        equal(answer.getheader("X-Kept"), "yes" if how == "headers" else None, how)
        check(how != "long" or data.count(b"***") >= 400, f"{how}: {len(data)}")
        x = server.ended(last(server, session))
        for stream in ("stdout", "stderr", "result"):
            check(PLAIN not in kept(server, x, stream)[0], f"{how}: {stream}")
        if how == "long":
            size = len(kept(server, x, "result")[0])
            check(x["output_truncated"] and 1 << 20 < size <= 8 << 20, f"it has the bound of any log: {size} bytes, {x}")
        x = server.ended(last(server, session))
        equal((x["command_sha256"], x["exit_code"]), (sha(how), code), f"{how}: {x}")
    c = http.client.HTTPConnection(*server.address, timeout=20)  # behind an upgrade nothing would be masked
    c.putrequest("POST", "/execute")
    for name, text in (("E2b-Sandbox-Id", session), ("E2b-Sandbox-Port", "49999"), ("X-API-Key", server.key), ("Connection", "Upgrade"), ("Upgrade", "x")):
        c.putheader(name, text)
    c.endheaders()
    equal(c.getresponse().status, 502, "an upgrade")
    c.close()
    # An answer that begins before the body has ended, which is then refused: it is cut, and there is no second one.
    with socket.create_connection(server.address, timeout=60 * PATIENCE) as c:
        c.sendall(f"POST /execute HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {session}\r\nE2b-Sandbox-Port: 49999\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n10\r\n{\"code\":\"early\" \r\n".encode())
        data = c.recv(65536)
        while b"soon" not in data and (more := c.recv(65536)):
            data += more
        c.sendall(b"3\r\n} x\r\n0\r\n\r\n")
        while more := c.recv(65536):
            data += more
    check(data.count(b"HTTP/1.1") == 1 and not data.endswith(b"0\r\n\r\n"), f"early: {data}")
    check("out of order" not in server.log(), "one answer for each request")
    c = link(server, session, {"code": "silent"})
    wait_for(lambda: last(server, session)["command_sha256"] == sha("silent"), 10, "its record")
    x = last(server, session)
    c.close()
    ended_once(server, x, "the client went away")
    equal(server.pid("cordond"), pid)
    grown = rss(pid) - before
    check(grown < 64 << 20, f"{grown >> 20} MiB more")
    forget_secrets(server, session)


if __name__ == "__main__":
    level.ROOT = languages_root
    run_tests(globals(), Interpreted, pool_size=1, pool_started_size=1, executions_max=6, session_output_max="8M")

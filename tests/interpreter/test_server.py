#!/usr/bin/python3
"""Goal: the server of the interpreter speaks E2B's interface, runs code of a context in order and of others beside it,
and keeps its bounds.    test_server.py PROGRAM [test ...]"""
import contextlib
import json
import os
import re
import select
import socket
import subprocess
import tempfile
import threading

from interp import PATH, PROGRAM, Interpreter, gone, main, the, types, wait_for
from checks import check, equal, has, stays  # noqa: I001


def the_interface_answers_as_clients_expect():
    with Interpreter() as i:
        status, headers, text = i.call("GET", "/health?source=test")
        equal((status, text, headers["Access-Control-Allow-Origin"]), (200, '"OK"', "*"))
        contexts = i.json("GET", "/contexts")
        equal([(c["language"], c["cwd"]) for c in contexts], [("python", i.folder), ("javascript", i.folder)])
        status, headers, _ = i.call("OPTIONS", "/execute")
        equal((status, headers["Access-Control-Allow-Headers"]), (200, "*"))
        equal(i.call("GET", "/nothing")[0], 404)
        equal(i.call("PUT", "/execute")[0], 405)
        for body, why in (("{", "not JSON"), ("[]", "object"), ("{}", "code"), ('{"code":1}', "code"), ('{"code":"1","env_vars":{"A":1}}', "env_vars"),
                          ('{"code":"1","env_vars":{"A=B":""}}', "env_vars"), ('{"code":"1","context_id":"x","language":"python"}', "Only one"),
                          ('{"code":"1","cwd":"here"}', "cwd")):
            status, _, text = i.call("POST", "/execute", body)
            equal(status, 400, body)
            has(text, why)
        equal(i.call("POST", "/execute", {"code": "1", "context_id": "nope"})[::2], (404, "Context nope not found"))
        equal(i.call("POST", "/contexts/nope/restart")[::2], (404, "Context nope not found"))
        equal(i.call("DELETE", "/contexts/nope")[::2], (404, "Context nope not found"))
        status, _, text = i.call("POST", "/execute", {"code": "1", "language": "cobol"})
        equal(status, 500)
        has(text, "cobol")


def the_names_of_languages_are_the_same_everywhere():
    """Those that the native interface and the tool `run` take are those that the interpreter knows."""
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src")

    def words(path, begin, end):
        with open(os.path.join(top, path), encoding="utf-8") as f:
            part = f.read().split(begin, 1)[1].split(end, 1)[0]
        return sorted(re.findall(r'"(\w+)"', part))

    with open(os.path.join(top, "incell/interpreter/kernel_process.c"), encoding="utf-8") as f:
        known = sorted(re.findall(r'\.(?:short_)?name = "(\w+)"', f.read()))
    check(len(known) > 5, f"names in languages.c: {known}")
    equal(words("front/web/spec_exec.c", "known[] = {", "}"), known)
    equal(words("front/mcptools/tool_run.c", '"enum": [', "]"), known)


def requests_come_in_any_form():
    """Several on a connection, chunked, in pieces, with Expect; malformed ones end the connection."""
    with Interpreter() as i:
        c = i.conn()
        for n in range(3):
            c.request("POST", "/execute", json.dumps({"code": f"out(b'{n}')", "language": " BASH "}))
            r = c.getresponse()
            has(r.read().decode(), f'"text":"{n}"')
        c.request("POST", "/execute", iter([b'{"code":"out(b', b"'chunks')\"", b',"language":"bash"}']), encode_chunked=True,
                  headers={"Transfer-Encoding": "chunked"})
        has(c.getresponse().read().decode(), "chunks")
        c.close()
        s = socket.socket(socket.AF_UNIX)
        s.connect(i.socket)
        s.sendall(b"POST /contexts HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        equal(s.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
        s.sendall(b"{")
        s.sendall(b"}GET /health HTTP/1.0\r\n\r\n")
        text = b"".join(iter(lambda: s.recv(65536), b""))
        equal(text.count(b"HTTP/1.1 200 OK"), 2)
        for bad in (b"GET /health\r\n\r\n", b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", b"\x00\x01\r\n\r\n",
                    b"GET /" + b"a" * 20000):
            s = socket.socket(socket.AF_UNIX)
            s.connect(i.socket)
            s.sendall(bad)
            check(s.recv(65536).startswith(b"HTTP/1.1 4"), bad[:40])
            s.close()
        equal(i.call("GET", "/health")[0], 200)


def answers_are_lines_of_ascii_in_order():
    """The lines as clients need them: never a blank one, no byte above 127, members of the interface only."""
    code = ("send(type='stdout', text='a\\n\\u00e9\\U0001f600')\nsend(type='stderr', text='b')\n"
            "raw(b'{\"type\":\"stdout\",\\n')\nraw(b'\\n\\n')\nraw('{\"type\":\"stdout\",\"text\":\"\\u20ac\"}\\n'.encode())\n"
            "send(type='result', is_main_result=True, text=\"'quoted'\", png='AA==', json={'a': [1, None]}, secret=1, extra={'x/y': 2}, html=3)\n"
            "send(type='surprise', text='x')\nsend(type='error', name='N', value='V', traceback='T')\nsend(type='error', name='2')\n")
    with Interpreter() as i:
        s = i.stream(code, language="bash")
        equal(s.response.headers["Content-Type"], "application/x-ndjson")
        raw = list(s.raw_lines())
        for line in raw:
            check(line.strip() and line.endswith(b"\n") and max(line) < 128, line)
        lines = [json.loads(line) for line in raw]
        equal(types(lines), ["number_of_executions", "stdout", "stderr", "stdout", "result", "error", "end_of_execution"])
        equal(lines[0], {"type": "number_of_executions", "execution_count": 1})
        equal(lines[1]["text"], "a\né😀")
        has(lines[1]["timestamp"], "T")
        equal(lines[3]["text"], "€")
        equal(lines[4], {"type": "result", "is_main_result": True, "text": "quoted", "png": "AA==", "json": {"a": [1, None]}, "extra": {"x/y": 2}})
        equal(lines[5], {"type": "error", "name": "N", "value": "V", "traceback": "T"})


def one_pair_of_outer_quotes_is_removed():
    with Interpreter() as i:
        for given, want in (("'a'", "a"), ('"a"', "a"), ("'", "'"), ("''", ""), ("\"'a'\"", "'a'"), ("'a\"", "'a\""), ("a", "a"), ("", ""),
                            ('"a\\"', "a\\"), ('"', '"')):
            got = the(i.run(f"send(type='result', is_main_result=True, text={given!r})", language="bash"), "result")
            equal(got["text"], want, given)


def output_of_programs_keeps_its_place():
    code = "import subprocess\nfor n in range(20):\n    send(type='stdout', text=f'm{n} ')\n    subprocess.run(['echo', '-n', f'p{n} '])\n"
    with Interpreter() as i:
        got = i.value(code + "out(b' end ')", language="bash")
        check(got.index("m0") < got.index("p19"), got)
        for kind in "mp":  # nothing is lost, and each way keeps its order
            equal([word for word in got.split() if word[0] == kind], [f"{kind}{n}" for n in range(20)])
        has(got.split(), "end")
        for _ in range(30):  # the count comes first, whatever is read first
            equal(types(i.run("out(b'x' * 5000)", language="bash"))[0], "number_of_executions")


def executions_of_a_context_wait_for_each_other():
    with Interpreter() as i:
        other = i.json("POST", "/contexts", {"language": "bash", "cwd": "/"})["id"]
        first = i.stream("import time\nwhile not os.path.exists(request['env']['F']): time.sleep(0.01)\nout(b'1')", language="bash",
                         env_vars={"F": i.folder + "/go"})
        rest = [i.stream(f"out(b'{n}'); send(type='stdout', text=str(request['id']))", language="bash") for n in range(2, 6)]
        equal(i.value("out(os.getcwd().encode())", context_id=other), "/")  # beside the others
        open(i.folder + "/go", "w").close()
        equal(first.rest()[1]["text"], "1")
        ids = []
        for n, s in enumerate(rest, 2):
            text = "".join(line["text"] for line in s.rest() if line["type"] == "stdout")
            check(text.startswith(str(n)), text)
            ids.append(int(text[1:]))
        equal(ids, sorted(ids))


def contexts_are_made_restarted_and_removed():
    with Interpreter() as i:
        made = i.json("POST", "/contexts", {"language": "python", "cwd": "/usr"})
        equal((made["language"], made["cwd"]), ("python", "/usr"))
        equal([c["id"] for c in i.json("GET", "/contexts")][2:], [made["id"]])
        equal(i.value("x = 1; out(os.getcwd().encode())", context_id=made["id"]), "/usr")
        equal(the(i.run("x += 1; send(type='stdout', text=str(x))", context_id=made["id"]), "number_of_executions")["execution_count"], 2)
        pid = int(i.value("out(str(os.getpid()).encode())", context_id=made["id"]))
        equal(i.call("POST", f"/contexts/{made['id']}/restart")[::2], (200, "null"))
        wait_for(lambda: gone(pid), name="the end of the old kernel")
        lines = i.run("x", context_id=made["id"])
        equal((the(lines, "error")["name"], the(lines, "number_of_executions")["execution_count"]), ("NameError", 1))
        running = i.stream("import time; time.sleep(60)", context_id=made["id"])
        equal(running.next()["type"], "number_of_executions")
        waiting = i.stream("out(b'never')", context_id=made["id"])
        equal(i.call("DELETE", f"/contexts/{made['id']}")[::2], (200, "null"))
        for s in (running, waiting):
            error = the(s.rest(), "error")
            equal((error["name"], error["value"]), ("ContextRestarting", "Context was restarted"))
        equal(i.call("POST", "/execute", {"code": "1", "context_id": made["id"]})[0], 404)
        status, _, text = i.call("POST", "/contexts", {"cwd": i.folder + "/none"})
        equal(status, 500)
        has(text, "not a directory")
        os.mkdir(i.folder + "/fail")
        equal(i.call("POST", "/contexts", {"cwd": i.folder + "/fail"})[2], "the kernel of python: refused by the test")
        equal(len(i.json("GET", "/contexts")), 2, "those that failed are not listed")


def a_language_that_is_missing_is_named():
    with Interpreter(path="/nonexistent") as i:
        for language, package in (("python", "python3"), ("r", "r-base-core"), ("js", "nodejs"), ("ts", "nodejs"), ("java", "openjdk-17-jdk-headless")):
            status, _, text = i.call("POST", "/execute", {"code": "1", "language": language})
            equal(status, 500)
            has(text, f"is not installed in this template: ")
            has(text, f"(Debian package {package})")
        read, write = os.pipe()
        done = subprocess.run(["sh", "-c", f'exec "$@" 3>&{write}', "sh", PROGRAM, "run", "--socket", i.socket, "--language", "r"],
                              input=b"1", capture_output=True, timeout=60, pass_fds=[write])
        os.close(write)
        with os.fdopen(read) as f:
            error = json.loads(f.read())
        equal((done.returncode, error["type"], error["name"]), (2, "error", "InterpreterError"))
        has(error["value"], "r is not installed in this template")


def environments_reach_kernels():
    """The session's, which may come after kernels have started, before any request that follows it."""
    read, write = os.pipe()
    with Interpreter(stdin=read) as i:
        os.close(read)
        equal(i.value("send(type='stdout', text=repr((os.read(0, 1), os.environ.get('A'))))", language="bash"), "(b'', None)", "it is not the server's input")
        os.write(write, b'{"env":{"A":"1\\"\'\\u00e9"}}\n')
        equal(i.value("send(type='stdout', text=repr(envs))", language="bash"), repr([{"A": "1\"'é"}]))
        equal(i.value("send(type='stdout', text=repr(envs))"), repr([{"A": "1\"'é"}]))
        os.write(write, b"garbage\n{\"env\":[]}\n{\"env\":{\"A\":\"2\"}}\n{")
        made = i.json("POST", "/contexts", {"language": "bash"})["id"]
        equal(i.value("send(type='stdout', text=repr((envs, request['env'], os.environ['A'])))", context_id=made, env_vars={"B": "=é"}),
              repr(([{"A": "2"}], {"B": "=é"}, "2")), "kernels that start later have it from the start")
        os.close(write)
        wait_for(lambda: i.call("GET", "/health")[0] == 200)


def bounds_are_kept():
    with Interpreter() as i:
        ids = [i.json("POST", "/contexts", {"language": "bash"})["id"] for _ in range(6)]
        s = i.stream("import time; time.sleep(60)", context_id=ids[0])
        waiting = [i.stream("1", context_id=ids[0]) for _ in range(64)]
        status, _, text = i.call("POST", "/execute", {"code": "1", "context_id": ids[0]})
        equal(status, 429)
        has(text, "wait in this context")
        many = []
        for _ in range(100):  # more connections than are taken at a time: the others wait for these to end
            c = socket.socket(socket.AF_UNIX)
            c.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                c.connect(i.socket)
            many.append(c)
        for c in many:
            c.close()
        for x in waiting:
            x.close()
        s.close()
        wait_for(lambda: i.call("GET", "/health")[0] == 200)
        equal(i.call("POST", "/execute", '{"code":"' + "a" * (17 << 20) + '"}')[0], 413)
        status, _, text = i.call("POST", "/execute", '{"code":"' + "a" * (16 << 20) + '"}')
        equal(status, 400)
        check(len(i.value("send(type='stdout', text='x' * 10); '''" + "a" * (15 << 20) + "'''", context_id=ids[1])) == 10, "15 MiB of code")


def heads_and_paths_are_bounded():
    """A path has 511 bytes: a longer one is no path of the interface. The beginning of a head has 16 KiB: then its end must be there."""
    with Interpreter() as i:
        for n, text in ((511, "Context"), (512, "Not Found")):
            got = i.call("DELETE", "/contexts/" + "c" * (n - len("/contexts/")))
            equal(got[0], 404)
            equal(got[2][: len(text)], text, f"{n} bytes")
        head = b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: " % k + b"a" * 3900 + b"\r\n" for k in range(4)) + b"X-Z: "
        for size in (16384, 16385):
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(30)
                s.connect(i.socket)
                s.sendall(head + b"z" * (size - len(head)))
                if size == 16384:
                    stays(lambda s=s: not select.select([s], [], [], 0)[0], 0.3)
                    s.sendall(b"\r\n\r\n")
                equal(s.recv(4096)[:12], b"HTTP/1.1 200" if size == 16384 else b"HTTP/1.1 400", f"{size} bytes")


def so_many_connections_are_open():
    """128 connections, the last of which ends one that has been served and is idle; one more is served."""
    with Interpreter() as i:
        def connect():
            c = i.conn()
            c.request("GET", "/health")
            equal(c.getresponse().read(), b'"OK"')
            return c

        def is_open(c):
            return not select.select([c.sock], [], [], 0)[0]

        conns = [connect() for _ in range(127)]
        stays(lambda: all(is_open(c) for c in conns), 0.5)
        conns.append(connect())
        wait_for(lambda: sum(not is_open(c) for c in conns) == 1)
        conns.append(connect())
        wait_for(lambda: sum(not is_open(c) for c in conns) == 2)
        for c in conns:
            c.close()


def a_kernel_that_starts_slowly_gets_time_while_it_works():
    """Its answers begin; one that does nothing is given up, and so is one that works for too long."""
    with tempfile.TemporaryDirectory() as bin, Interpreter(path=bin, ready=False, options=("--slow-ms", "500")) as i:
        go = f"{bin}/go"
        for name, text in (("bash", f"while [ ! -e {go} ]; do :; done\nPATH={PATH}; exec /bin/sh $1"), ("node", "while :; do :; done"), ("Rscript", "exec /bin/sleep 60")):
            with open(f"{bin}/{name}", "w", encoding="ascii") as f:
                f.write(f"#!/bin/sh\n{text}\n")
            os.chmod(f.name, 0o755)
        begin = threading.Barrier(4)
        answers = {}

        def ask(language):
            begin.wait()
            answers[language] = i.stream("out(b'1')", language=language)

        threads = [threading.Thread(target=ask, args=(language,)) for language in ("bash", "js", "r")]
        for thread in threads:
            thread.start()
        begin.wait()
        for thread in threads:
            thread.join()
        equal([answers[name].status for name in ("bash", "js", "r")], [200, 200, 500])
        has(answers["r"].response.read().decode(), "does not go on")
        second = i.stream("out(b'2')", language="bash")  # comes when the kernel is slow already
        equal(second.status, 200)
        check(not os.path.exists(go), "the kernel cannot be ready")
        open(go, "w", encoding="ascii").close()
        for want, s in (("1", answers["bash"]), ("2", second)):
            equal([line["text"] for line in s.rest() if line["type"] == "stdout"], [want])
        lines = answers["js"].rest()
        equal(types(lines), ["error", "end_of_execution"])
        has(the(lines, "error")["traceback"], "takes too long")


def silence_is_broken_by_keepalives():
    with Interpreter() as i:
        s = i.stream("import time; time.sleep(6); out(b'x')", language="bash")
        has([line["type"] for line in s.rest()], "keepalive")


def it_listens_on_a_port_of_all_addresses():
    with Interpreter() as i:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        i.process.kill()
        i.process.wait()
        i.start(port)
        i.verb("ready", check=True)
        for host in ("127.0.0.1", "::1", "127.0.0.2"):
            with socket.create_connection((host, port)) as c:
                c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                check(c.recv(100).startswith(b"HTTP/1.1 200"), host)


def run_runs_code():
    with Interpreter() as i:
        def run(code, *args, fd3=True):
            read, write = os.pipe()
            done = subprocess.run(["sh", "-c", f'exec "$0" "$@" 3>&{write}' if fd3 else 'exec "$0" "$@"', PROGRAM, "run", "--socket", i.socket, *args],
                                  input=code.encode(), capture_output=True, pass_fds=[write], timeout=60)
            os.close(write)
            with os.fdopen(read) as f:
                return done.returncode, done.stdout.decode(), done.stderr.decode(), [json.loads(line) for line in f]
        code = "x = 5\nout('hé'.encode())\nerr(b'e')\nsend(type='result', is_main_result=True, text='7')"
        status, out, err, results = run(code, "--language", "bash")
        equal((status, out, err, types(results)), (0, "hé", "e", ["number_of_executions", "result"]))
        equal(run("send(type='result', text='8')", "--language", "bash", fd3=False)[:2], (0, "8\n"))
        status, out, err, results = run("1/0", "--language", "bash")
        equal((status, out, types(results)), (1, "", ["number_of_executions", "error"]))
        has(err, "ZeroDivisionError")
        status, out, err, _ = run("1", "--language", "cobol")
        equal((status, out), (2, ""))
        has(err, "cobol")
        equal(run("1", "--langage", "x")[0], 2)
        equal(run("y = 1", "--language", "bash", "--context", "mine")[0], 0)
        equal(run("send(type='stdout', text=str(y))", "--language", "bash", "--context", "mine")[1], "1")
        equal(run("y", "--language", "bash")[0], 1, "another context")
        status, _, err, _ = run("1", "--context", "mine")
        equal(status, 2)
        has(err, "one of bash")
        equal(run("out(b'x' * 300000)", "--language", "bash")[1], "x" * 300000)


def killing_run_interrupts_its_code():
    with Interpreter() as i:
        p = subprocess.Popen([PROGRAM, "run", "--socket", i.socket, "--language", "bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        p.stdin.write(b"z = 1\nout(b'go')\nimport time\ntime.sleep(60)")
        p.stdin.close()
        equal(p.stdout.read(2), b"go")
        p.kill()
        p.wait()
        equal(i.value("send(type='stdout', text=str(z))", language="bash"), "1", "the same kernel")
        i.process.kill()
        i.process.wait()
        done = subprocess.run([PROGRAM, "run", "--socket", i.socket, "--wait-ms", "50"], input=b"1", capture_output=True, timeout=20)
        equal(done.returncode, 1)
        has(done.stderr.decode(), "does not answer")
        starter = threading.Timer(0.3, i.start)  # run waits for a server that is about to start
        starter.start()
        done = subprocess.run([PROGRAM, "run", "--socket", i.socket, "--language", "bash"], input=b"out(b'late')", capture_output=True, timeout=20)
        starter.join()
        equal((done.returncode, done.stdout), (0, b"late"))
        stays(lambda: i.process.poll() is None, 0.1, "the server")


main([the_interface_answers_as_clients_expect, the_names_of_languages_are_the_same_everywhere, requests_come_in_any_form,
      answers_are_lines_of_ascii_in_order, one_pair_of_outer_quotes_is_removed, output_of_programs_keeps_its_place,
      executions_of_a_context_wait_for_each_other, contexts_are_made_restarted_and_removed, a_language_that_is_missing_is_named,
      environments_reach_kernels, bounds_are_kept, heads_and_paths_are_bounded, so_many_connections_are_open, a_kernel_that_starts_slowly_gets_time_while_it_works,
      silence_is_broken_by_keepalives, it_listens_on_a_port_of_all_addresses, run_runs_code,
      killing_run_interrupts_its_code])

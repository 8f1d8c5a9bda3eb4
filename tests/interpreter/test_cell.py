#!/usr/bin/python3
"""Goal: inside a cell, code that takes all processes or all memory of its session harms its own context only: the
server goes on, and the context works again. Other users than root run none.

    test_cell.py CORDON [name ...]   # starts itself in a cell, as root there"""
import http.client
import json
import os
import signal
import subprocess
import sys
import time

INSIDE = "--inside"
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "shared")]
from checks import check, equal, wait_for  # noqa: E402


def request(method, path, body=None, timeout=60):
    c = http.client.HTTPConnection("127.0.0.1", 49999, timeout=timeout)
    c.request(method, path, None if body is None else json.dumps(body))
    return c, c.getresponse()


def run(code, **more):
    c, r = request("POST", "/execute", dict(more, code=code))
    lines = [json.loads(line) for line in r] if r.status == 200 else [{"type": "failed", "status": r.status}]
    c.close()
    return lines


def result(code, **more):
    return next((line.get("text") for line in run(code, **more) if line["type"] == "result"), None)


def leave(code, seconds):
    """Runs code, and closes the connection after a while."""
    c, r = request("POST", "/execute", {"code": code})
    r.readline()
    time.sleep(seconds)  # the code does its worst meanwhile
    c.sock and c.sock.close()
    r.close()


def works_again(**more):
    wait_for(lambda: result("'fine'", **more) == "fine", 30, "an answer of the context")


def a_fork_bomb_ends_with_its_client():
    other = json.loads(request("POST", "/contexts", {})[1].read())["id"]
    for code in ("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
                 "import subprocess\nwhile True:\n    try: subprocess.Popen(['sleep', '1000'])\n    except OSError: pass",
                 "import threading, time\nwhile True:\n    try: threading.Thread(target=time.sleep, args=(1000,)).start()\n    except RuntimeError: pass"):
        leave(code, 1)
        equal(request("GET", "/health")[1].status, 200)
        equal(result("'fine'", context_id=other), "fine", "the other context")
        works_again()
    default = json.loads(request("GET", "/contexts")[1].read())[0]["id"]
    equal(request("POST", f"/contexts/{default}/restart")[1].status, 200, "the threads end with their kernel")
    equal(request("POST", "/contexts", {})[1].status, 200, "processes can be made again")


def code_that_takes_all_memory_loses_its_context():
    lines = run("x = 1\na = []\nwhile True: a.append(bytearray(1 << 24)); a[-1][::4096] = b'x' * (1 << 12)")
    check(any(line["type"] == "error" for line in lines), lines)
    equal(request("GET", "/health")[1].status, 200)
    works_again()


def a_server_that_is_killed_can_be_started_again():
    global server
    server.send_signal(signal.SIGKILL)
    server.wait()
    server = start()
    works_again()


def the_programs_are_where_they_belong():
    equal(sorted(set(os.listdir("/opt/cordon")) & {"bin", "kernels"}), ["bin", "kernels"])
    equal(subprocess.run(["cordon-interpreter", "ready"], timeout=60).returncode, 0)
    done = subprocess.run(["cordon-interpreter", "run", "--language", "python"], input=b"import os; print(os.getcwd())", capture_output=True, timeout=60)
    equal((done.returncode, done.stdout), (0, b"/home/user\n"))


NOBODY = 65534
AS_NOBODY = """import socket, sys
how, path, body = sys.argv[1:4]
four = how == "127.0.0.1"
s = socket.socket(socket.AF_UNIX if how == "unix" else socket.AF_INET if four else socket.AF_INET6)
s.connect("\\0cordon-interpreter" if how == "unix" else (how, 49999))
s.sendall(f"{'POST' if body else 'GET'} {path} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
if len(sys.argv) == 4:
    print(b"".join(iter(lambda: s.recv(65536), b"")).decode())
"""


def as_nobody(*args):
    return subprocess.run([sys.executable, "-c", AS_NOBODY, *args], user=NOBODY, group=NOBODY, extra_groups=[], check=True,
                          capture_output=True, text=True, timeout=60).stdout


def other_users_of_the_cell_cannot_run_code():
    trace = "/tmp/ran-for-nobody"
    code = json.dumps({"code": f"open({trace!r}, 'w')"})
    for how in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "unix"):
        for path, body in (("/execute", code), ("/contexts", "{}"), ("/contexts", "")):
            answer = as_nobody(how, path, body)
            check(answer.startswith("HTTP/1.1 403 ") and "only root" in answer, (how, path, answer))
        check(as_nobody(how, "/health", "").startswith("HTTP/1.1 200 "), (how, "health"))
    ran = subprocess.run(["cordon-interpreter", "run"], input=code.encode(), user=NOBODY, group=NOBODY, extra_groups=[],
                         capture_output=True, timeout=60)
    check(ran.returncode != 0 and b"only root" in ran.stderr, ran)
    # The kernel says that a closed socket is root's: the server looks only after the client is gone.
    server.send_signal(signal.SIGSTOP)
    for how in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        as_nobody(how, "/execute", code, "close at once")
    server.send_signal(signal.SIGCONT)
    equal(result("'fine'"), "fine", "root's own, after theirs")
    check(not os.path.exists(trace), "code of another user ran")


def code_is_not_sent_to_another_users_server():
    fake = "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('\\0other'); s.listen(); print('up', flush=True); time.sleep(90)"
    with subprocess.Popen([sys.executable, "-c", fake], user=NOBODY, group=NOBODY, extra_groups=[],
                          stdout=subprocess.PIPE) as listener:
        listener.stdout.readline()
        ran = subprocess.run(["cordon-interpreter", "run", "--socket", "@other", "--wait-ms", "100"], input=b"1", capture_output=True, timeout=30)
        listener.kill()
    check(ran.returncode != 0 and b"another user listens" in ran.stderr, ran)


def start():
    made = subprocess.Popen(["cordon-interpreter", "serve"], stdin=subprocess.DEVNULL)
    equal(subprocess.run(["cordon-interpreter", "ready", "--wait-ms", "60000"], timeout=90).returncode, 0, "ready")
    return made


TESTS = [the_programs_are_where_they_belong, other_users_of_the_cell_cannot_run_code, code_is_not_sent_to_another_users_server,
         a_fork_bomb_ends_with_its_client, code_that_takes_all_memory_loses_its_context,
         a_server_that_is_killed_can_be_started_again]

if INSIDE in sys.argv:
    import traceback
    server = start()
    print(f"1..{len(TESTS)}")
    for number, test in enumerate(TESTS, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__.replace('_', ' ')}", flush=True)
        except Exception:  # noqa: BLE001
            print(f"not ok {number} - {test.__name__.replace('_', ' ')}", flush=True)
            print("# " + traceback.format_exc().replace("\n", "\n# "), flush=True)
    server.kill()
else:
    if os.getuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(0)
    tests = os.path.dirname(HERE)
    sys.exit(subprocess.run([sys.argv[1], "run", "--user", "root", "--pids", "150", "--memory", "512M", "--timeout", "200s",
                             "--mount", f"{tests}:/tests", "--", "/usr/bin/python3", "/tests/interpreter/test_cell.py", INSIDE], check=False).returncode)

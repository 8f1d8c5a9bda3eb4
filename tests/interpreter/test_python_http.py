#!/usr/bin/python3
"""Goal: what E2B's clients see of Python: cordon-interpreter and its Python kernel over HTTP, in a cell.

    test_python_http.py CORDON [name ...]   # starts itself in a cell of the host's files, as root there"""
import base64
import concurrent.futures
import http.client
import json
import os
import subprocess
import sys
import zipfile

INSIDE = "--inside"
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "shared")]
PORT = 49999


def request(method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    connection.request(method, path, None if body is None else json.dumps(body))
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response.status, data


def execute(code, **more):
    status, data = request("POST", "/execute", dict(more, code=code))
    assert status == 200, (status, data)
    assert data.isascii() and b"\n\n" not in data, "ASCII, no empty line"
    events = [json.loads(line) for line in data.splitlines()]
    assert events[0]["type"] == "number_of_executions" and events[-1]["type"] == "end_of_execution", events
    return events[1:-1]


def of(events, kind):
    return [event for event in events if event["type"] == kind]


def stdout(code, **more):
    return "".join(event["text"] for event in of(execute(code, **more), "stdout"))


def error(code, **more):
    return of(execute(code, **more), "error")[0]


def text(code, **more):
    return of(execute(code, **more), "result")[-1]["text"]


def context(**more):
    return json.loads(request("POST", "/contexts", more)[1])["id"]


def health_and_contexts():
    equal(request("GET", "/health"), (200, b'"OK"'))
    listed = json.loads(request("GET", "/contexts")[1])
    equal([c["language"] for c in listed], ["python", "javascript"], "there before the first request")
    own = context(cwd="/root")
    equal(json.loads(request("GET", "/contexts")[1])[-1], {"id": own, "language": "python", "cwd": "/root"})
    equal(text("import os; os.getcwd()", context_id=own), "/root")
    equal(stdout("!pwd"), "/home/user\n")
    execute("x = 1", context_id=own)
    equal(request("POST", f"/contexts/{own}/restart", {})[0], 200)
    failed = error("x", context_id=own)
    equal((failed["name"], failed["value"]), ("NameError", "name 'x' is not defined"))
    first = json.loads(request("POST", "/execute", {"code": "1", "context_id": own})[1].splitlines()[0])
    equal(first["execution_count"], 2, "counts from 1 after a restart")
    equal(request("DELETE", f"/contexts/{own}")[0], 200)
    equal(request("POST", "/execute", {"code": "1", "context_id": own})[0], 404)


def text_output_and_values():
    events = execute("print('hello')")
    equal([(e["type"], e["text"]) for e in events], [("stdout", "hello\n")])
    check("T" in events[0]["timestamp"], events)
    equal(text("'a'"), "a")
    equal(text("\"it's\""), "it's")
    result = of(execute("{'a': [1, None]}"), "result")[0]
    equal((result["json"], result["is_main_result"]), ({"a": [1, None]}, True))
    equal(text("    y = 2\n    y"), "2", "indented as a whole")
    equal(text("import asyncio\nawait asyncio.sleep(0.01, 'waited')"), "waited")
    equal(stdout("%cd /tmp\n!pwd"), "/tmp\n/tmp\n")
    equal(text("import os; os.getuid()"), "0", "kernels run as root")
    events = execute("from IPython.display import *\ndisplay({'text/latex': r'\\alpha'}, raw=True)")
    equal(events, [{"type": "result", "is_main_result": False, "latex": r"\alpha"}])
    equal(of(execute("print('\\ud800\\xe4')"), "stdout")[0]["text"], "\ufffd\xe4\n")


def environment_of_a_call():
    code, value = "import os; print(os.environ.get('CALL'))", "it's \"quoted\"\\\n$x"
    equal(stdout(code), "None\n")
    equal(stdout(code, env_vars={"CALL": value}), value + "\n")
    equal(stdout(code), "None\n")


def errors():
    failed = error("print(1)\n1/0")
    equal((failed["name"], failed["value"]), ("ZeroDivisionError", "division by zero"))
    check("\x1b" not in failed["traceback"] and "1/0" in failed["traceback"], failed)
    equal(len(of(execute("import sys; sys.exit(1)"), "error")), 1)
    events = execute("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    equal([e["type"] for e in events], ["error"], "a kernel that dies")
    equal(text("1+1"), "2", "and the next one")


def a_client_that_goes_away():
    own = context()
    execute("kept = 5", context_id=own)
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    connection.request("POST", "/execute", json.dumps({"code": "import time\nprint(1, flush=True)\ntime.sleep(1000)",
                                                       "context_id": own}))
    response = connection.getresponse()
    response.fp.readline()
    response.close()
    connection.close()
    equal(text("kept", context_id=own), "5", "interrupted, and its names are there")


def contexts_at_the_same_time():
    ids = [context() for _ in range(8)]
    code = "import threading, os\nos.getpid()"
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        pids = list(pool.map(lambda one: text(code, context_id=one), ids))
    equal(len(set(pids)), 8)
    for one in ids:
        request("DELETE", f"/contexts/{one}")


def much_output():
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    connection.request("POST", "/execute", json.dumps({"code": "for i in range(100): print('x' * 999999)"}))
    response = connection.getresponse()
    size = 0
    while True:
        data = response.read(1 << 20)
        if not data:
            break
        size += data.count(b"x")
    check(size >= 99999900, size)


def figures_frames_and_images():
    for name in ("matplotlib", "pandas", "PIL"):
        if not os.path.isdir("/usr/lib/python3/dist-packages/" + name):
            raise Skip("no " + name)
    events = execute("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()\nx = 1\nx")
    results = of(events, "result")
    equal(events, results, "no warnings")
    equal([r["is_main_result"] for r in results], [False, True])
    equal(results[0]["chart"]["type"], "line")
    check(base64.b64decode(results[0]["png"]).startswith(b"\x89PNG"), "a PNG")
    result = of(execute("import pandas as pd\npd.DataFrame({'a': [1, 2]})"), "result")[0]
    equal(result["data"], {"a": [1, 2]})
    for line in ("image", "image.show()", "image.save('/tmp/f.png')"):
        results = of(execute("from PIL import Image\nimage = Image.new('RGB', (4, 4))\n" + line), "result")
        equal(len(results), 1, line)
        check(results[0]["png"], line)


def packages_that_are_installed():
    if not os.path.isdir("/usr/lib/python3/dist-packages/pip"):
        raise Skip("no pip")
    with zipfile.ZipFile("/tmp/tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "X = 42")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    equal(error("import tiny")["name"], "ModuleNotFoundError")
    execute("!rm -rf /usr/local/lib/python3*/dist-packages")  # the first package there
    printed = stdout("%pip install -q --no-index /tmp/tiny-1.0-py3-none-any.whl")
    equal(text("import tiny; tiny.X"), "42", printed)


def inside(names):
    """In the cell: the server, then the tests."""
    import tap
    from checks import wait_for
    subprocess.Popen(["cordon-interpreter", "serve"], stdin=subprocess.DEVNULL)
    wait_for(lambda: subprocess.call(["cordon-interpreter", "ready"]) == 0, 60, "the interpreter")
    return tap.run([health_and_contexts, text_output_and_values, environment_of_a_call, errors,
                    a_client_that_goes_away, contexts_at_the_same_time, much_output, figures_frames_and_images,
                    packages_that_are_installed], names)


def main():
    if sys.argv[1] == INSIDE:
        return inside(sys.argv[2:])
    if os.getuid() != 0:
        print("1..0 # SKIP needs root")
        return 0
    tests = os.path.dirname(HERE)
    return subprocess.call([sys.argv[1], "run", "--user", "root", "--memory", "2G", "--mount", tests + ":/mnt/tests:ro", "--",
                            "/usr/bin/python3", "-B", "/mnt/tests/interpreter/test_python_http.py", INSIDE] + sys.argv[2:])


if __name__ == "__main__":
    from checks import Skip, check, equal
    sys.exit(main())

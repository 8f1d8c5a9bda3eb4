#!/usr/bin/python3
"""Goal: the Python kernel speaks its protocol whatever the code does: values, output, errors, state, interrupts.

    test_python_kernel.py [name ...]"""
import os
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402
from checks import check, equal, has, wait_for  # noqa: E402
from driver import Ended, Parent  # noqa: E402

KILLED_SECONDS = 5  # INTERRUPT_MS in src/incell/interpreter/context.c
parent = None
kernels = []


def kernel(cwd="/"):
    kernels.append(parent.spawn(cwd))
    return kernels[-1]


def values_and_counts():
    k = kernel()
    equal(k.run("1+1").messages, [{"type": "count", "execution_count": 1},
                                  {"type": "result", "is_main_result": True, "text": "2"}])
    equal(k.run("x = 5").messages, [{"type": "count", "execution_count": 2}])
    equal(k.run("x", silent=True).messages, [], "silent")
    answer = k.run("display(x); x")
    equal([(r["text"], r["is_main_result"]) for r in answer.results], [("5", False), ("5", True)])
    equal(answer.of("count")[0]["execution_count"], 3, "silent ones do not count")
    equal(k.run("'a'").text, "'a'", "the server takes the quotes off")
    equal(k.run("7;").results, [], "a semicolon")
    equal(k.run("").messages, [{"type": "count", "execution_count": 6}])
    equal(k.run("  y = 1\n  y + 1").text, "2", "indented as a whole")
    equal(k.run("import __main__; __main__.y").text, "1")
    equal(k.run("\ufeffz = 3\r\nz # \ud800").text, "3")


def json_of_lists_and_dicts():
    k = kernel()
    equal(k.run("[1, 'a', None]").results[0]["json"], [1, "a", None])
    equal(k.run("{1: float('nan'), None: [float('inf')], (2.5): True}").results[0]["json"],
          {"1": None, "null": [None], "2.5": True})
    check("json" not in k.run("[object()]").results[0], "an object has no JSON")
    check("json" not in k.run("{(1, 2): 3}").results[0], "a tuple is no key")
    check("json" not in k.run("a = []; a.append(a); a").results[0], "a circle")
    check("json" in k.run("deep = []\nfor i in range(58): deep = [deep]\ndeep").results[0], "deep")
    check("json" not in k.run("deep = [[deep]]; deep").results[0], "too deep for the server")
    check("json" not in k.run("class L(list):\n    def __repr__(self): return 'L'\nwide = []\n"
                              "for i in range(50): wide = L([wide, wide])\nwide").results[0], "too many")
    equal(k.run("import datetime; [datetime.date(2024, 1, 2)]").results[0]["json"], ["2024-01-02"])
    equal(k.run("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: object\n[P(P(1))]").results[0]["json"],
          [{"x": {"x": 1}}])
    equal(k.run(r"['\ud800', '\U0001f600']").results[0]["json"], ["\ufffd", "\U0001f600"])


def output_is_one_message_for_each_flush():
    k = kernel()
    equal(k.run("print('hello')").of("stdout"), [{"type": "stdout", "text": "hello\n"}])
    equal(k.run("print(1); print(2)").of("stdout"), [{"type": "stdout", "text": "1\n2\n"}])
    answer = k.run("import sys\nprint('a'); print('b', file=sys.stderr); print('c'); 1")
    equal([(m["type"], m["text"]) for m in answer.messages[1:]],
          [("stdout", "a\n"), ("stderr", "b\n"), ("stdout", "c\n"), ("result", "1")])
    k.start("import time, threading\nprint('early')\nthreading.Event().wait(60)")
    equal(k.receive()["type"], "count")
    equal(k.receive(), {"type": "stdout", "text": "early\n"}, "while the cell runs")
    k.interrupt()
    equal(k.finish().error["name"], "KeyboardInterrupt")
    answer = k.run(r"sys.stdout.buffer.write(b'\xff\xc3\xa4\n'); print('\ud800x'); None")
    equal(answer.stdout, "\ufffd\xe4\n\ufffdx\n")
    equal(k.run("print(sys.stdout.fileno(), sys.stdout.isatty(), sys.stdout.encoding)").stdout, "1 False utf-8\n")


def much_output_comes_in_pieces():
    k = kernel()
    k.start("for i in range(1000): print('x' * 99999)\nprint('y' * 5000000)")
    size = 0
    while True:
        message = k.receive()
        if message["type"] == "done":
            break
        if message["type"] == "stdout":
            check(len(message["text"]) <= 1 << 16, "a piece is too large")
            size += len(message["text"])
    equal(size, 105000001)


def large_values_are_cut():
    k = kernel()
    text = k.run("'x' * 50000000").text
    check(len(text) < 1 << 21 and "left out" in text, "not cut")
    answer = k.run("class H:\n    def _repr_html_(self): return '<' * 40000000\nH()")
    check("html" not in answer.results[0], "too large")
    has(answer.stderr, "html (40000002 bytes)")
    has(k.run("raise ValueError('z' * 10000000)").error["value"], "left out")


def output_of_programs_and_native_code():
    k = kernel("/tmp")
    equal(k.run("!pwd").stdout, "/tmp\n")
    equal(k.run("%cd /usr").stdout, "/usr\n")
    equal(k.run("import os; os.getcwd()").text, "'/usr'")
    equal(k.run("print(1)\n!echo 2; echo 3 >&2\nprint(4)").stdout, "1\n2\n3\n4\n")
    equal(k.run("x = !echo a; echo b\nx").text, "['a', 'b']")
    equal(k.run("a = 5\n!echo {a} $a; exit 3").stdout, "5 5\n")
    equal(k.run("_exit_code").text, "3")
    equal(k.run("os.system('echo from a child'); os.write(1, b'raw\\n');").stdout, "from a child\nraw\n")
    equal(k.run("import ctypes; ctypes.CDLL(None).puts(b'native');").stdout, "native\n")
    equal(k.run("%%capture kept\nprint('p')\n!echo q").stdout, "")
    equal(k.run("kept.stdout").text, r"'p\nq\n'")
    answer = k.run("%%bash\necho in bash; pwd")
    equal(answer.stdout, "in bash\n/usr\n")
    equal(k.run("import subprocess, sys; subprocess.run(['echo', 'x'], stdout=sys.stdout);").stdout, "x\n")
    for program in ("!echo 2", "subprocess.run(['echo', '2'])", "os.system('echo 2')",
                    "p = os.fork()\nif p == 0:\n    print(2); os._exit(0)\nos.waitpid(p, 0)"):
        equal(k.run("print(1)\n" + program + "\nprint(3); display(4)\n" + program + ";").stdout, "1\n2\n3\n2\n", program)
    has(k.run("!cat /proc/self/fd/3").stdout, "No such file", "programs do not have the channel")


def errors_have_name_value_and_traceback():
    k = kernel()
    error = k.run("print('before')\nx").error
    equal((error["name"], error["value"]), ("NameError", "name 'x' is not defined"))
    has(error["traceback"], "----> 2 x")
    check("\x1b" not in error["traceback"], "no colours")
    equal(k.run("def f(:").error["name"], "SyntaxError")
    equal(k.run("if 1:\nx").error["name"], "IndentationError")
    equal(k.run("x = '\0'").error["name"], "SyntaxError")
    equal(k.run("1").of("count")[0]["execution_count"], 5, "errors count as one")
    error = k.run("class Bad(Exception):\n    def __str__(self): raise ValueError\nraise Bad()").error
    equal(error["name"], "Bad")
    error = k.run("def f(n): return f(n + 1)\nf(0)").error
    equal(error["name"], "RecursionError")
    error = k.run(r"raise ValueError('\ud800')").error
    equal(error["value"], "\ufffd")
    error = k.run("class R:\n    def __repr__(self): raise ValueError('no repr')\nR()").error
    equal((error["name"], error["value"]), ("ValueError", "no repr"))
    answer = k.run("class H:\n    def __repr__(self): return 'H'\n    def _repr_html_(self): raise ValueError\nH()")
    equal(answer.text, "H")
    equal(k.run("2").text, "2", "and it goes on")


def ends_of_cells():
    k = kernel()
    for code in ("exit", "exit()", "quit(0)", "import sys; sys.exit(0)", "raise SystemExit"):
        answer = k.run("kept = 1") and k.run(code)
        equal(answer.error["name"], "SystemExit", code)
        equal(answer.stderr, "", code)
    equal(k.run("kept").text, "1", "names stay")
    k.run("%reset -f")
    equal(k.run("kept").error["name"], "NameError")
    equal(k.run("exit(1)").error["name"], "SystemExit")
    equal(k.run("2").text, "2", "after %reset")
    for code in ("input()", "input('name? ')"):
        error = k.run(code).error
        has(error["value"], "not available")
    equal(k.run("import sys; sys.stdin.read()").text, "''")
    k.start("import os; os._exit(3)")
    try:
        k.finish()
        check(False, "still there")
    except Ended:
        pass


def magics_that_are_not_there():
    """As ipykernel: a line on stderr, and no error."""
    k = kernel()
    for code in ("%no_such_magic", "%%no_such_magic\n1", "%time_it_all 1"):
        done = k.run(code)
        check("error" not in [m["type"] for m in done.messages], done.messages)
        has(done.stderr, "UsageError: ")
    equal(k.run("1+1").results[0]["text"], "2")


def missing_modules_have_a_hint():
    k = kernel()
    error = k.run("import sys; sys.modules['numpy'] = None\nimport numpy").error
    equal(error["name"], "ModuleNotFoundError")
    has(error["traceback"], "cordon template interpreter --science")
    check("Hint" not in error["value"], "only in the traceback")
    error = k.run("sys.modules['sklearn'] = None\nimport sklearn.svm").error
    has(error["traceback"], "%pip install scikit-learn")
    check("Hint" not in k.run("import no_such_module").error["traceback"], "well-known names only")


def environment_of_the_session_and_of_a_call():
    k = kernel()
    k.send(op="env", env={"S": "se'ss\"ion", "T": "1", "TZ": "Asia/Tokyo", "bad=": "x", "nul": "a\0b", "n": 5})
    code = "import os, time; [os.environ.get(n) for n in 'STC'] + [time.strftime('%Z')]"
    equal(k.run(code).results[0]["json"], ["se'ss\"ion", "1", None, "JST"])
    equal(k.run(code, env={"T": "2\n$x'", "C": "3", "TZ": "UTC"}).results[0]["json"],
          ["se'ss\"ion", "2\n$x'", "3", "UTC"])
    equal(k.run(code).results[0]["json"], ["se'ss\"ion", "1", None, "JST"])
    k.run("os.environ['C'] = 'changed'; os.environ['OWN'] = '1'", env={"C": "3"})
    equal(k.run("[os.environ.get('C'), os.environ.get('OWN')]").results[0]["json"], [None, "1"])
    equal(k.run("!echo $C", env={"C": "to programs"}).stdout, "to programs\n")


def await_at_the_top():
    k = kernel()
    equal(k.run("import asyncio\nawait asyncio.sleep(0, 5)").text, "5")
    equal(k.run("async def f(): return 6\nx = await f()\nx").text, "6")
    equal(k.run("asyncio.run(f())").text, "6")
    equal(k.run("async with asyncio.Lock():\n    print('in')").stdout, "in\n")
    k.run("import os, time\nr, w = os.pipe()\n"
          "async def late():\n    await asyncio.sleep(0.05)\n    os.write(w, b'x')\n"
          "t = asyncio.create_task(late())")
    equal(k.run("import select; bool(select.select([r], [], [], 0.0)[0]) or bool(await asyncio.sleep(0.2, 1))").text,
          "True")
    k.run("t = asyncio.create_task(late())")
    k.run("os.read(r, 1)")  # the loop ran between the cells, or this would wait for ever
    k.start("print('waits', flush=True)\nawait asyncio.sleep(60)")
    while k.receive().get("text") != "waits\n":
        pass
    k.interrupt()
    equal(k.finish().error["name"], "KeyboardInterrupt")
    equal(k.run("await f()").text, "6")


def interrupts():
    k = kernel()
    for code in ("while True: pass", "import time; time.sleep(60)", "!sleep 60", "import threading; threading.Event().wait()",
                 "import subprocess; subprocess.run(['sleep', '60'])"):
        k.start("print('on', flush=True)\n" + code)
        while k.receive().get("text") != "on\n":
            pass
        k.interrupt()
        equal(k.finish().error["name"], "KeyboardInterrupt", code)
    for _ in range(20):
        k.interrupt()
    equal(k.run("1").text, "1", "ignored between executions")
    k.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    k.start("print('on', flush=True)\nwhile True: pass")
    while k.receive().get("text") != "on\n":
        pass
    k.interrupt()
    equal(k.finish().error["name"], "KeyboardInterrupt", "a handler of the cell before is gone")
    k.start("class D:\n    def __del__(self): print('on' * 100)\nwhile True: D()")
    while "on" not in k.receive().get("text", ""):
        pass
    k.interrupt()
    began = time.monotonic()
    equal(k.finish().error["name"], "KeyboardInterrupt", "in a destructor")
    check(time.monotonic() - began < KILLED_SECONDS, "before the server would have killed it")
    for _ in range(10):
        k.start("import os\nprint('on', flush=True)\n"
                "while True:\n    pid = os.fork()\n    if pid == 0: os._exit(0)\n    os.waitpid(pid, 0)")
        while k.receive().get("text") != "on\n":
            pass
        k.interrupt()
        equal(k.finish().error["name"], "KeyboardInterrupt", "around a fork")
    # The line of an interrupt that comes with its request, when no signal is seen.
    line = '{"op":"execute","id":%d,"code":"while True: pass"}\n{"op":"interrupt"}\n{"op":"env","env":{}}\n'
    k.socket.sendall((line % k.next_id).encode())
    k.next_id += 1
    equal(k.finish().error["name"], "KeyboardInterrupt", "early")
    k.send(op="interrupt")
    equal(k.run("1").text, "1", "late")
    # Many signals while messages are written: each line stays whole, or receive() fails.
    for _ in range(20):
        k.start("while True: print('x' * 100)")
        for _ in range(3):
            k.receive()
        for _ in range(10):
            k.interrupt()
        equal(k.finish().error["name"], "KeyboardInterrupt")
    equal(k.run("2").text, "2")


def an_interrupt_ends_with_its_cell():
    """A destructor swallows it, and the cell ends at once: what is sent again must not reach the next cell."""
    k = kernel()
    k.run("import time\nclass D:\n    def __del__(self):\n        print('on', flush=True)\n        time.sleep(60)")
    for _ in range(5):
        k.start("d = D()\ndel d")
        while k.receive().get("text") != "on\n":
            pass
        k.interrupt()
        k.finish()
        answer = k.run("end = time.monotonic() + 0.1\nwhile time.monotonic() < end: pass\n5")
        equal((answer.error, answer.text), (None, "5"), "the next cell")


def handlers_of_signals():
    k = kernel()
    k.run("import signal, time\nclass Late(Exception): pass\ndef late(*args): raise Late('now')")
    error = k.run("signal.signal(signal.SIGALRM, late); signal.setitimer(signal.ITIMER_REAL, 0.05)\nwhile True: pass").error
    equal((error["name"], error["value"]), ("Late", "now"))
    equal(k.run("signal.getsignal(signal.SIGALRM) is late").text, "True")
    equal(k.run("signal.signal(signal.SIGALRM, late) is late").text, "True")
    # Exceptions of handlers at any moment leave each line whole, or receive() fails.
    for _ in range(30):
        equal(k.run("signal.setitimer(signal.ITIMER_REAL, 0.005)\nwhile True: print('x' * 70000)").error["name"], "Late")
    k.run("signal.setitimer(signal.ITIMER_REAL, 0.01)")
    while "Late: now" not in "".join(m.get("text", "") for m in [k.receive()]):
        pass  # between executions it is text
    equal(k.run("1").text, "1")
    k.run("signal.signal(signal.SIGINT, late)")
    k.interrupt()
    equal(k.run("2").text, "2")
    k.start("signal.signal(signal.SIGINT, late); print('on', flush=True)\nwhile True: pass")
    while k.receive().get("text") != "on\n":
        pass
    k.interrupt()
    equal(k.finish().error["name"], "Late", "a handler of the code's own")


def destructors_that_print():
    k = kernel()
    k.run("class D:\n    def __init__(self): self.me = self\n"
          "    def __del__(self): print('d' * 70000, flush=True); display('x')\nimport gc; gc.set_threshold(1)")
    answer = k.run("for i in range(50):\n    D(); print('y' * 70000)\ngc.collect();")
    check(answer.stdout.count("y") == 50 * 70000 and answer.stdout.count("d") == 50 * 70000, "all of it")


def the_channel_survives_the_code():
    k = kernel()
    k.run("import os, sys\nfor fd in (1, 2, 3):\n    try: os.close(fd)\n    except OSError: pass")
    equal(k.run("print('still')\n1").stdout, "still\n")
    equal(k.run("!echo program").stdout, "program\n")
    k.run("sys.stdout.close(); sys.stderr.close()")
    equal(k.run("print('open')").stdout, "open\n")
    k.run("import io; sys.stdout = io.StringIO(); print('hidden')")
    equal(k.run("print('hidden')").stdout, "", "a stream of the user's stays")
    k.run("sys.stdout.close()")
    equal(k.run("print('repaired')").stdout, "repaired\n")
    k.run("del sys.stdout; sys.setrecursionlimit(60)")
    equal(k.run("print('again'); sys.stderr = None").stdout, "again\n")
    equal(k.run("sys.stderr.write('e');").stderr, "e")
    k.run("os.environ = {}; os.mkdir('/tmp/gone%d' % os.getpid()); os.chdir('/tmp/gone%d' % os.getpid());"
          "os.rmdir(os.getcwd())")
    equal(k.run("os.getcwd()").text, "'/'")


def processes_that_the_code_forks():
    k = kernel()
    answer = k.run("import os, sys\nprint('kept')\npid = os.fork()\n"
                   "if pid == 0:\n    print('child')\nelse:\n    os.waitpid(pid, 0)\nprint('both')\npid > 0")
    equal(sorted(answer.stdout.splitlines()), ["both", "both", "child", "kept"])
    equal([r["text"] for r in answer.results], ["True"], "the child has no channel")
    answer = k.run("pid = os.fork()\nif pid == 0: sys.exit(4)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    equal(answer.text, "4", "sys.exit() ends the child")
    answer = k.run("pid = os.fork()\nif pid == 0: raise ValueError('there')\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    equal((answer.text, answer.error), ("1", None))
    has(answer.stderr, "ValueError: there")
    answer = k.run("import warnings; warnings.simplefilter('error')\nprint('thread')\n"
                   "import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as p:\n"
                   "    got = p.map(abs, [-1, -2])\ngot")
    equal(answer.text, "[1, 2]")
    equal(answer.stderr, "")


def threads_that_outlive_the_cell():
    k = kernel()
    k.run("import threading\ngo = threading.Event()\ndef late():\n    go.wait()\n    print('late')\n"
          "threading.Thread(target=late).start()")
    k.start("go.set()")
    got = []
    while "late\n" not in "".join(got):
        got.append(k.receive().get("text", ""))


def contexts_share_nothing():
    a, b = kernel(), kernel()
    a.run("x = 1; import random")
    equal(b.run("x").error["name"], "NameError")
    codes = ["import random; random.random()", "import uuid; str(uuid.uuid4())", "import tempfile; tempfile.mktemp()"]
    for code in codes:
        check(a.run(code).text != b.run(code).text, code)
    check(os.getsid(a.pid) == a.pid, "a session leader")
    equal(a.run("import os, threading; [os.getpid(), threading.active_count()]").text, f"[{a.pid}, 1]")


def kernels_end():
    k = kernel()
    k.socket.shutdown(2)
    wait_for(lambda: not os.path.exists(f"/proc/{k.pid}"), name="the end at the end of the channel")
    k = kernel()
    os.kill(k.pid, signal.SIGKILL)
    wait_for(lambda: not os.path.exists(f"/proc/{k.pid}"), name="the parent reaps it")
    k = kernel("/nowhere")
    equal(k.run("import os; os.getcwd()").text, "'/'")


def rich_display():
    k = kernel()
    answer = k.run("from IPython.display import *\ndisplay({'text/latex': '$x$'}, raw=True)")
    equal(answer.results, [{"type": "result", "is_main_result": False, "latex": "$x$"}])
    result = k.run("HTML('<b>')").results[0]
    equal(result["html"], "<b>")
    equal(k.run("Markdown('# a')").results[0]["markdown"], "# a")
    equal(k.run("SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>')").results[0]["svg"][:4], "<svg")
    equal(k.run("JSON({'a': 1})").results[0]["json"], {"a": 1})
    equal(k.run("Javascript('1')").results[0]["javascript"], "1")
    equal(k.run("display({'application/pdf': b'%PDF', 'image/jpeg': b'\\xff'}, raw=True)").results[0],
          {"type": "result", "is_main_result": False, "pdf": "JVBERg==", "jpeg": "/w=="})
    equal(k.run("display({'text/plain': 'p', 'a/b': {'c': 1}, 'd/e': b'x'}, raw=True)").results[0]["extra"],
          {"a/b": {"c": 1}, "d/e": "eA=="})
    equal(k.run("d = display(1, display_id=True); d.update(2); clear_output()").results[0]["text"], "1")


def nothing_is_written_to_the_home():
    with tempfile.TemporaryDirectory() as home:
        own = Parent(env={"HOME": home})
        k = own.spawn()
        equal(k.run("1+1").text, "2")
        k.run("x")
        check(set(os.listdir(home)) <= {".cache"}, os.listdir(home))  # fonts, see below
        k.kill()
        own.close()


TESTS = [values_and_counts, json_of_lists_and_dicts, output_is_one_message_for_each_flush, much_output_comes_in_pieces,
         large_values_are_cut, output_of_programs_and_native_code, errors_have_name_value_and_traceback, ends_of_cells,
         magics_that_are_not_there, missing_modules_have_a_hint, environment_of_the_session_and_of_a_call, await_at_the_top, interrupts,
         an_interrupt_ends_with_its_cell, handlers_of_signals, destructors_that_print,
         the_channel_survives_the_code, processes_that_the_code_forks, threads_that_outlive_the_cell,
         contexts_share_nothing, kernels_end, rich_display, nothing_is_written_to_the_home]


def main():
    global parent
    parent = Parent(python=os.environ.get("CORDON_TEST_PYTHON", "/usr/bin/python3"))
    try:
        return tap.run(TESTS, sys.argv[1:])
    finally:
        for one in kernels:
            one.kill()
        parent.close()


if __name__ == "__main__":
    sys.exit(main())

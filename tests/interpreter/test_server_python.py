#!/usr/bin/python3
"""Goal: the server with the real Python kernel: 50 contexts, interrupts, killed kernels, a large notebook's worth of
calls.    test_server_python.py PROGRAM [test ...]"""
import os
import signal
import threading
import time

from interp import REAL, Interpreter, gone, main, the, types, wait_for
from checks import check, equal, has, note  # noqa: I001


def values_outlive_calls():
    with Interpreter(REAL) as i:
        i.run("x = 1")
        got = i.run("x += 1; print('hello'); x")
        equal(types(got), ["number_of_executions", "stdout", "result"])
        equal((got[1]["text"], got[2]["text"], got[2]["is_main_result"]), ("hello\n", "2", True))
        error = the(i.run("y"), "error")
        equal((error["name"], error["value"]), ("NameError", "name 'y' is not defined"))
        equal(the(i.run("'text'"), "result")["text"], "text")
        equal(i.value("import os; print(os.environ['A'])", env_vars={"A": "b'\"é"}), "b'\"é\n")
        equal(the(i.run("os.environ['A']"), "error")["name"], "KeyError")


def fifty_contexts_live_side_by_side():
    with Interpreter(REAL) as i:
        began = time.monotonic()
        ids = [i.json("POST", "/contexts")["id"] for _ in range(50)]
        note(f"{(time.monotonic() - began) / 50 * 1000:.1f} ms for each of 50 contexts")
        got = {}

        def work(n, ident):
            i.run(f"mine = {n}", context_id=ident)
            got[ident] = the(i.run("mine", context_id=ident), "result")["text"]
        threads = [threading.Thread(target=work, args=pair) for pair in enumerate(ids)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        equal([got[ident] for ident in ids], [str(n) for n in range(50)])
        equal([c["id"] for c in i.json("GET", "/contexts")][2:], ids)
        for _ in range(12):
            i.json("POST", "/contexts")
        status, _, text = i.call("POST", "/contexts")
        equal(status, 429)
        has(text, "64 contexts")
        for ident in ids:
            equal(i.call("DELETE", f"/contexts/{ident}")[0], 200)
        equal(len(i.json("GET", "/contexts")), 14)
        equal(i.json("POST", "/contexts")["language"], "python")


def an_abandoned_loop_is_interrupted():
    with Interpreter(REAL) as i:
        i.run("x = 1")
        for code in ("while True: pass", "import time; time.sleep(100)", "import subprocess; subprocess.run(['sleep', '100'])", "!sleep 100",
                     "while True: print('spam')"):
            s = i.stream(code)
            s.next()
            s.close()
            equal(the(i.run("x"), "result")["text"], "1", code)


def a_killed_python_kernel_is_replaced():
    with Interpreter(REAL) as i:
        lines = i.run("import os, signal; x = 1; os.kill(os.getpid(), signal.SIGKILL)")
        error = the(lines, "error")
        equal((error["name"], error["value"]), ("ContextRestarting", "Context was restarted"))
        has(error["traceback"], "the kernel of python: it has ended, and the variables of the context are gone")
        equal(the(i.run("x"), "error")["name"], "NameError")
        pid = int(i.value("import os; print(os.getpid())"))
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: gone(pid))
        equal(the(i.run("1+1"), "result")["text"], "2")
        equal(the(i.run("import ctypes; ctypes.string_at(0)"), "error")["name"], "ContextRestarting")
        equal(the(i.run("1+1"), "result")["text"], "2")


def bash_names_itself_in_its_messages():
    """Not the descriptor that it reads code from."""
    with Interpreter(REAL) as i:
        for _ in range(2):
            lines = i.run("echo ok\nnosuchprogram\nnosuchprogram 2>&1 | cat\necho \"$(</dev/null)\" /dev/fd/250: >&2", language="bash")
            text = "".join(line["text"] for line in lines if line["type"] == "stderr")
            equal(text, "bash: line 2: nosuchprogram: command not found\n /dev/fd/250:\n")


def user_code_cannot_break_the_channel():
    """Code that closes, reads or writes the kernel's own descriptors harms its context only, and not for long."""
    with Interpreter(REAL) as i:
        other = i.json("POST", "/contexts")["id"]
        for code in ("import os; os.write(3, b'garbage')", "import os; os.close(3)", "import os; os.closerange(0, 100)",
                     "import os; os.write(3, b'{\"type\":\"done\",\"id\":1}\\n' * 1000)", "import os; os.dup2(os.open('/dev/null', 2), 3)",
                     "import sys; sys.stdout = sys.stderr = None", "import os; os.fork()", "exit()", "import os; os.abort()"):
            s = i.stream(code)
            end = threading.Timer(3, s.close)
            end.start()
            try:
                list(s.raw_lines())
            except (OSError, ValueError, AttributeError):
                pass  # it hung, and its client left
            end.cancel()
            s.close()
            equal(the(i.run("'fine'", context_id=other), "result")["text"], "fine", code)
            wait_for(lambda: any(line.get("text") == "fine" for line in i.run("'fine'")), 20, f"the default context after {code}")


def two_hundred_calls_take_no_memory():
    with Interpreter(REAL) as i:
        for n in range(200):
            equal(the(i.run(f"'{'x' * 1000}'; {n}"), "result")["text"], str(n))
        check(i.memory() < 16 << 20, f"the server has {i.memory()} bytes")


main([values_outlive_calls, fifty_contexts_live_side_by_side, an_abandoned_loop_is_interrupted, a_killed_python_kernel_is_replaced,
      bash_names_itself_in_its_messages, user_code_cannot_break_the_channel, two_hundred_calls_take_no_memory])

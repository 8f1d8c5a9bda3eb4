#!/usr/bin/python3
"""Goal: without IPython the Python kernel runs plain cells and says what is missing.

    test_python_plain.py [name ...]         # with CORDON_TEST_PYTHON=/path/to/python3 another Python than the machine's"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402
from checks import check, equal, has  # noqa: E402
from driver import Parent  # noqa: E402

parent = None


def values():
    k = parent.spawn("/tmp")
    equal(k.run("1+1").messages, [{"type": "count", "execution_count": 1},
                                  {"type": "result", "is_main_result": True, "text": "2"}])
    equal(k.run("x = 5").results, [])
    equal(k.run("x;").results, [])
    equal(k.run("  y = x\n\n  y + 1").text, "6", "indented as a whole")
    equal(k.run("\n# note\n    z = 1\n    z").text, "1")
    equal(k.run("[1, None]").results[0]["json"], [1, None])
    equal(k.run("_ + [2]").text, "[1, None, 2]")
    equal(k.run("display(1); 2").results[0]["text"], "1")
    equal(k.run("class H:\n    def _repr_html_(self): return '<b>'\n    def __repr__(self): return 'H'\nH()")
          .results[0], {"type": "result", "is_main_result": True, "text": "H", "html": "<b>"})
    equal(k.run("import os; os.getcwd()").text, "'/tmp'")
    equal(k.run("import __main__; __main__.x").text, "5")
    equal(k.run("x", silent=True).messages, [])
    k.kill()


def errors():
    k = parent.spawn()
    error = k.run("def f():\n    return 1/0\nf()").error
    equal((error["name"], error["value"]), ("ZeroDivisionError", "division by zero"))
    has(error["traceback"], "    return 1/0")
    check("plain.py" not in error["traceback"], "frames of the kernel are left out")
    has(k.run("def f(:").error["traceback"], "def f(:")
    for code in ("!ls", "%cd /tmp", "x = 1\n%time x"):
        error = k.run(code).error
        equal(error["name"], "UsageError", code)
        has(error["value"], "IPython")
    equal(k.run("import sys; sys.exit(2)").error["name"], "SystemExit")
    has(k.run("input()").error["value"], "not available")
    has(k.run("sys.modules['pandas'] = None\nimport pandas").error["traceback"], "--science")
    equal(k.run("class R:\n    def __repr__(self): raise ValueError('no')\nR()").error["value"], "no")
    equal(k.run("def f(n): return f(n + 1)\nf(0)").error["name"], "RecursionError")
    equal(k.run("1").text, "1")
    k.kill()


def output_and_await_and_interrupts():
    k = parent.spawn()
    equal(k.run("print('hello')").of("stdout"), [{"type": "stdout", "text": "hello\n"}])
    equal(k.run("import asyncio\nawait asyncio.sleep(0, 5)").text, "5")
    equal(k.run("async def f():\n    return 6\ny = await f()\ny").text, "6")
    for code in ("while True: pass", "await asyncio.sleep(60)"):
        k.start("print('on', flush=True)\n" + code)
        while k.receive().get("text") != "on\n":
            pass
        k.interrupt()
        equal(k.finish().error["name"], "KeyboardInterrupt", code)
    answer = k.run("import os, warnings\nwarnings.simplefilter('error')\nprint('kept')\npid = os.fork()\n"
                   "if pid: os.waitpid(pid, 0)\nprint(pid > 0)")
    equal(sorted(answer.stdout.splitlines()), ["False", "True", "kept"])
    equal(answer.error, None)
    equal(k.run("!x", env={"A": "1"}).error["name"], "UsageError")
    equal(k.run("os.environ.get('A')").results, [], "restored after an error")
    k.kill()


TESTS = [values, errors, output_and_await_and_interrupts]


def main():
    global parent
    parent = Parent(python=os.environ.get("CORDON_TEST_PYTHON", "/usr/bin/python3"), without=["IPython"])
    try:
        return tap.run(TESTS, sys.argv[1:])
    finally:
        parent.close()


if __name__ == "__main__":
    sys.exit(main())

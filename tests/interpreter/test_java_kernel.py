#!/usr/bin/python3
"""The kernel of Java, without its server. One kernel for most of it: a virtual machine takes seconds to start."""
from kernel import Dead, Kernel, check, equal, has, run

shared = []


def kernel():
    if not shared:
        shared.append(Kernel("java"))
    return shared[0]


def test_values_and_state():
    k = kernel()
    equal(k.run("1 + 1").text, "2")
    for code in ("int x = 5;", "// only a comment", "", "int twice(int n) { return 2 * n; }", "class P { int n = 3; }"):
        equal(k.run(code).messages[1:], [], code)
    equal(k.run("int y = twice(x) + new P().n;\ny").text, "13")
    equal(k.run('String x = "now text"; // declared again\nx').text, '"now text"')
    equal(k.run("List.of(1, 2).stream().map(i -> i * 2).collect(Collectors.toList())").text, "[2, 4]")
    equal(k.run('"a\\"b\\\\\\n"').text, '"a\\"b\\\\\\n"')
    count = k.run("1").count
    equal([k.run("1", silent=True).messages, k.run("1").count], [[], count + 1])


def test_output():
    r = kernel().run('System.out.println("Hello é😀");\nSystem.err.println("err");\nSystem.out.print("c");')
    equal([(m["type"], m["text"]) for m in r.messages[1:]], [("stdout", "Hello é😀\n"), ("stderr", "err\n"), ("stdout", "c")])


def test_errors():
    k = kernel()
    e = k.run('void g() { throw new IllegalStateException("deep"); }\ng();\nSystem.out.println("never");')
    equal((e.error["name"], e.error["value"], e.stdout), ("IllegalStateException", "deep", ""))
    has(e.error["traceback"], "\n    at g (#")
    e = k.run("int z = undefined;").error
    equal((e["name"], e["value"]), ("CompilationError", "cannot find symbol"))
    has(e["traceback"], "variable undefined")
    equal(k.run("if (true").error["name"], "CompilationError")


def test_properties():
    k = kernel()
    equal(k.run('System.getProperty("user.dir")').text, '"/tmp"')
    k.send(op="env", env={"SESSION": "s"})
    r = k.run('System.getProperty("SESSION") + System.getProperty("A")', env={"A": "it's \\n"})
    equal(r.text, '"sit\'s \\\\n"')
    equal(k.run('System.getProperty("A", "unset")').text, '"unset"')


def test_interrupts():
    k = kernel()
    k.run("int kept = 1;")
    for code in ("while (true) {}", "Thread.sleep(100_000);"):
        k.begin(f'System.out.println("begun");\n{code}\nSystem.out.println("never");')
        k.finish(until=lambda m: m["type"] == "stdout")
        r = k.interrupted()
        equal((r.error["name"], r.stdout), ("Interrupted", ""), code)
        equal(k.run("kept").text, "1", code)
    k.interrupt()  # idle, or the next cell: the virtual machine handles signals on another thread
    k.run("kept")
    equal(k.run("kept").text, "1")


def test_exit_ends_the_kernel_with_an_error():
    k = kernel()
    k.begin("System.exit(3);")
    equal(k.finish(until=lambda m: m["type"] == "error").error["name"], "SystemExit")
    try:
        k.receive(5)
    except Dead:
        return k.close()
    return check(False, "the kernel lives on")


run(globals())

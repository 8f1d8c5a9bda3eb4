#!/usr/bin/python3
"""The kernel of R, without its server."""
import base64

from kernel import Dead, Kernel, check, equal, has, run


def test_values_and_state():
    with Kernel("r") as k:
        for code, text in (
            ("1 + 1", "[1] 2"),
            ("getwd()", '[1] "/tmp"'),
            ('"\\u00e9\\U0001f600 \\"q\\" \\\\"', '[1] "é😀 \\"q\\" \\\\"'),
            ("NULL", "NULL"),
            ("summary(c(1, 2, 3))[['Mean']]", "[1] 2"),
        ):
            equal(k.run(code).text, text, code)
        for code in ("x <- 5", "invisible(3)", "", "# only a comment", "f <- function(n) n * x"):
            equal(k.run(code).messages[1:], [], code)
        r = k.run("x; f(2)\ncat('last\\n')")
        equal([(m["text"], m["is_main_result"]) for m in r.results], [("[1] 5", False), ("[1] 10", False)])
        equal(k.run("x; f(2)").text, "[1] 10", "the last one is the result")
        has(k.run("list(a = 1)").text, "$a\n[1] 1")
        equal([k.run("1").count, k.run("1", silent=True).of("count"), k.run("1").count], [14, [], 15])


def test_output():
    with Kernel("r") as k:
        equal(k.run('print("Hello"); cat("é\\n")').stdout, '[1] "Hello"\né\n')
        equal(k.run('system("echo native"); cat("then\\n")').stdout, "native\nthen\n")
        equal(k.run('message("m")').stderr, "m\n")
        has(k.run('warning("careful")').stderr, "careful")
        r = k.run('cat("first\\n"); "second"')
        equal([m["type"] for m in r.messages], ["count", "stdout", "result"])


def test_errors():
    with Kernel("r") as k:
        e = k.run('f <- function(n) stop("boom ", n)\nf(1)').error
        equal((e["name"], e["value"]), ("Error", "boom 1"))
        equal(e["traceback"], 'Error in f(1): boom 1\nTraceback:\n1. f(1)\n2. stop("boom ", n)')
        equal(k.run("missing_name").error["value"], "object 'missing_name' not found")
        e = k.run("x y").error
        equal(e["name"], "ParseError")
        has(e["value"], "unexpected symbol")
        e = k.run('stop(structure(class = c("custom", "error", "condition"), list(message = "m", call = NULL)))').error
        equal((e["name"], e["value"]), ("custom", "m"))
        equal(k.run('tryCatch(stop("in"), error = function(e) "caught")').text, '[1] "caught"')


def test_tables_and_plots():
    with Kernel("r") as k:
        r = k.run('data.frame(a = 1:2, b = c("x", "y"))').results[0]
        equal(r["text"], "  a b\n1 1 x\n2 2 y")
        if k.run('stopifnot(requireNamespace("repr", quietly = TRUE))').error is None:
            has(r["html"], "<table")
            has(r["markdown"], "| 1 | x |")
        r = k.run("plot(1:3)\nlines(3:1)\nplot(2)").results
        equal([m["is_main_result"] for m in r], [False, False], "two pages")
        for m in r:
            equal(base64.b64decode(m["png"], validate=True)[:8], b"\x89PNG\r\n\x1a\n")
        equal(k.run("1").results[0].get("png"), None)


def test_environment():
    with Kernel("r", env={"KEPT": "old"}) as k:
        k.send(op="env", env={"SESSION": "s"})
        r = k.run('cat(Sys.getenv(c("SESSION", "A", "KEPT")), sep = "|")', env={"A": "it's \"q\" \\n", "KEPT": "new"})
        equal(r.stdout, 's|it\'s "q" \\n|new')
        equal(k.run('cat(Sys.getenv("A", "unset"), Sys.getenv("KEPT"))').stdout, "unset old")


def test_interrupts():
    with Kernel("r") as k:
        k.run("kept <- 1")
        for code in ("while (TRUE) {}", "Sys.sleep(100)", "repeat tryCatch(Sys.sleep(1), error = function(e) 1)"):
            k.begin(f"cat('begun'); {code}; cat('never')")
            while not any("begun" in m["text"] for m in k.strays):
                k.drain()
            r = k.interrupted()
            equal((r.error["name"], "never" in r.stdout), ("Interrupted", False), code)
            equal(k.run("kept").text, "[1] 1", code)
        k.interrupt()  # idle
        equal(k.run("kept").text, "[1] 1")


def test_quit_ends_the_kernel_with_an_error():
    with Kernel("r") as k:
        k.begin("quit(status = 3)")
        equal(k.finish(until=lambda m: m["type"] == "error").error["name"], "Quit")
        try:
            k.receive(5)
        except Dead:
            return
        check(False, "the kernel lives on")


run(globals())

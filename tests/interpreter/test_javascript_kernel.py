#!/usr/bin/python3
"""The kernel of JavaScript and TypeScript, without its server: values, state, errors, imports, interrupts."""
import os
import tempfile

from kernel import Dead, Kernel, check, equal, has, run


def test_values():
    with Kernel("javascript") as k:
        for code, text in (
            ("1 + 1", "2"),
            ("'a'", "'a'"),
            ("-0", "-0"),
            ("10n ** 20n", "100000000000000000000n"),
            ("null", "null"),
            ("new Map([[1, { a: [1] }]])", "Map(1) { 1 => { a: [ 1 ] } }"),
            ("(function () { return this === globalThis })()", "true"),
            ("for (const i of [1, 2]) i", "2"),
            ("Promise.resolve('waited')", "'waited'"),
            ("await new Promise((go) => setTimeout(() => go(7), 20))", "7"),
            ("'\\u00e9\\u{1f600}'", "'é😀'"),
        ):
            equal(k.run(code).text, text, code)
        for code in ("undefined", "let nothing = 1", "", "// only a comment", "if (false) 1"):
            equal(k.run(code).messages[1:], [], code)


def test_objects_have_json():
    with Kernel("javascript") as k:
        equal(k.run("({ a: [1, null] })").results[0]["json"], {"a": [1, None]})
        equal(k.run("{ a: 1 }").results[0]["json"], {"a": 1}, "an object, not a block")
        equal(k.run("[1, 'x']").results[0]["json"], [1, "x"])
        for code in ("[1n]", "new Date(0)", "const o = {}; o.o = o; o", "Symbol('s')", "() => 1"):
            check("json" not in k.run(code).results[0], code)


def test_state_and_redeclaration():
    with Kernel("javascript") as k:
        k.run("const a = 1; let b = 2; var c = 3; class D { x = 4 }; function e() { return 5 }")
        equal(k.run("[a, b, c, new D().x, e()].join()").text, "'1,2,3,4,5'")
        k.run("const a = 10; let b = 20; class D { x = 40 }; function e() { return 50 }")
        equal(k.run("[a, b, c, new D().x, e()].join()").text, "'10,20,3,40,50'")
        equal(k.run("a = 3").error["name"], "TypeError", "still constant")
        equal(k.run("const later = await Promise.resolve(8)").error, None)
        equal(k.run("later").text, "8")


def test_output_keeps_its_order():
    with Kernel("javascript") as k:
        r = k.run("console.log('a'); console.error('b'); console.log('c %d', 1); void process.stdout.write('d')")
        got = [(m["type"], m["text"]) for m in r.messages[1:]]
        equal(got, [("stdout", "a\n"), ("stderr", "b\n"), ("stdout", "c 1\n"), ("stdout", "d")])
        r = k.run("require('child_process').execSync('echo native', { stdio: 'inherit' }); console.log('then')")
        equal(r.stdout, "native\nthen\n")
        equal(len(k.run("process.stdout.write('x'.repeat(20e6)); 1").stdout), 20_000_000)
        equal(k.run("process.stdout.write(Buffer.from([0xc3])); process.stdout.write(Buffer.from([0xa9]))").stdout, "é")


def test_errors():
    with Kernel("javascript") as k:
        e = k.run("function f() {\n  throw new RangeError('deep')\n}\nf()").error
        equal((e["name"], e["value"]), ("RangeError", "deep"))
        equal(e["traceback"], "RangeError: deep\n    at f (cell-1.js:2:9)\n    at cell-1.js:4:1")
        e = k.run("let x\nx y").error
        equal((e["name"], e["value"][:21]), ("SyntaxError", "Unexpected identifier"))
        equal(e["traceback"], f"SyntaxError: {e['value']}\n    at cell-2.js:2:3")
        equal(k.run("throw 3").error["value"], "3")
        equal(k.run("throw undefined").error["value"], "undefined")
        equal(k.run("missing").error["value"], "missing is not defined")
        e = k.run("Promise.reject(new TypeError('late'))")
        equal((e.error["name"], e.error["value"], e.stderr), ("TypeError", "late", ""))
        has(k.run("throw new Error('a', { cause: new Error('b') })").error["traceback"], "[cause]: Error: b")
        equal(k.run("({ get x() { throw 1 }, toJSON() { throw 2 } })").error, None, "a value that fails to be shown")


def test_errors_in_the_background_end_nothing():
    with Kernel("javascript") as k:
        k.run("globalThis.kept = 1; setTimeout(() => { throw new Error('timer') }, 1); Promise.reject(new Error('nobody'))\n1")
        err = k.run("await new Promise((go) => setTimeout(go, 100)); kept")
        equal(err.text, "1")
        has(err.stderr, "Uncaught Error: timer")
        has(err.stderr, "Uncaught Error: nobody")


def test_imports():
    with tempfile.TemporaryDirectory() as d:
        os.mkdir(os.path.join(d, "node_modules"))
        os.mkdir(os.path.join(d, "node_modules", "dep"))
        with open(os.path.join(d, "node_modules", "dep", "package.json"), "w") as f:
            f.write('{"name": "dep", "type": "module", "exports": "./index.js"}')
        with open(os.path.join(d, "node_modules", "dep", "index.js"), "w") as f:
            f.write("export default 'dep'; export const part = 1")
        with open(os.path.join(d, "own.mjs"), "w") as f:
            f.write("export const own = 2")
        with Kernel("javascript", cwd=d) as k:
            r = k.run("import { readFileSync, existsSync as there } from 'fs'\nimport os, * as all from 'node:os'\nimport 'path'")
            equal((r.error, r.stderr), (None, ""))
            equal(k.run("[typeof readFileSync, there('/'), os.EOL === all.EOL].join()").text, "'function,true,true'")
            equal(k.run("import dep, { part } from 'dep'\nimport { own } from './own.mjs'\n[dep, part, own].join()").text, "'dep,1,2'")
            equal(k.run("(await import('./own.mjs')).own").text, "2")
            equal(k.run("require('fs') === fs").text, "true")
            equal(k.run("export const e = 4\nexport { e }\nexport default function named() {}\ne").text, "4")
            equal(k.run("export default function () { return 6 }\nexports.default()").text, "6")
            equal(k.run("export * from './own.mjs'\nexport default { e }").results[0]["json"], {"e": 4})
            # words that only look like it
            equal(k.run("const o = { import: 1 }; o.import + `${'import x from \"y\"'}`.length // import z").text, "18")
            equal(k.run("/import a from 'b'/.source.length / 2").text, "8.5")
            equal(k.run("import { nothing } from './absent.mjs'").error["name"], "Error")


def test_rich_results():
    with Kernel("javascript") as k:
        r = k.run("display.html('<b>x</b>'); display.mime({ 'text/latex': 'y', 'x/z': 1 }); ({ _toSvg: () => '<svg/>' })")
        got = [{n: v for n, v in m.items() if n not in ("type", "json")} for m in r.results]
        equal(got[0], {"is_main_result": False, "html": "<b>x</b>"})
        equal(got[1], {"is_main_result": False, "latex": "y", "extra": {"x/z": 1}})
        equal((got[2]["is_main_result"], got[2]["svg"]), (True, "<svg/>"))
        r = k.run("({ [Symbol.for('Jupyter.display')]: () => ({ 'image/png': new Uint8Array([1, 2]) }) })")
        equal(r.results[0]["png"], "AQI=")


def test_cells_that_change_built_ins():
    with Kernel("javascript") as k:
        k.run("JSON.stringify = () => { throw 1 }; Array.prototype.map = null; Object.prototype.x = 1")
        equal(k.run("6").text, "6")
        equal(len(k.run("'\\u00e9'.repeat(3e6)").text) < 1_100_000, True, "long values are cut")


def test_counts_and_silence():
    with Kernel("javascript") as k:
        equal(k.run("1").count, 1)
        equal(k.run("2", silent=True).messages, [])
        equal(k.run("3").count, 2)


def test_environment():
    with Kernel("javascript", env={"KEPT": "old"}) as k:
        k.send(op="env", env={"SESSION": "it's \"quoted\" é"})
        equal(k.run("process.env.SESSION").text, "`it's \"quoted\" é`")
        equal(k.run("process.env.ONE + process.env.KEPT", env={"ONE": "1", "KEPT": "new"}).text, "'1new'")
        equal(k.run("[process.env.ONE, process.env.KEPT].join()").text, "',old'")


def interrupts(k, code, name="Interrupted"):
    k.begin(f"console.log('begun'); {code}")
    k.finish(until=lambda m: m["type"] == "stdout")
    error = k.interrupted().error
    check(error is not None, f"{code}: no error")
    if name:
        equal(error["name"], name, code)
    equal(k.run("kept").text, "'state'", f"after {code}")


def test_interrupts():
    with Kernel("javascript") as k:
        k.run("const kept = 'state'")
        interrupts(k, "while (true) {}")
        interrupts(k, "await null; while (true) {}")
        interrupts(k, "await new Promise(() => {})")
        interrupts(k, "new Promise(() => {})")
        interrupts(k, "try { while (true) {} } catch { while (true) {} }")
        interrupts(k, "require('child_process').execSync('sleep 100')", None)
        k.interrupt()  # idle
        equal(k.run("kept").text, "'state'")


def test_an_interrupt_ends_with_its_cell():
    """The cell ends by itself while the kernel tries to interrupt it (two waits of 100 ms): the next one goes on."""
    busy = "{ const end = Date.now() + %d; while (Date.now() < end); }"
    with Kernel("javascript") as k:
        for after in (busy % 400 + " 5", "await new Promise((done) => setTimeout(done, 400)); 5"):
            k.begin("console.log('begun'); " + busy % 150)
            k.finish(until=lambda m: m["type"] == "stdout")
            k.interrupt()
            k.finish()
            equal(k.run(after).text, "5", f"the next cell: {after}")


def test_exit_ends_the_kernel_with_an_error():
    with Kernel("javascript") as k:
        k.begin("process.exit(3)")
        r = k.finish(until=lambda m: m["type"] == "error")
        equal((r.error["name"], "process.exit(3)" in r.error["value"]), ("ProcessExit", True))
        try:
            k.receive(5)
        except Dead as e:
            check("debugger" not in str(e), f"node's own words: {e}")
            return
        check(False, "the kernel lives on")


def test_dies_with_its_server():
    with Kernel("javascript") as k:
        k.begin("while (true) {}")
        k.finish(until=lambda m: m["type"] == "count")
        k.link.shutdown(2)
        k.process.wait(10)


def test_typescript():
    with Kernel("typescript") as k:
        r = k.run("interface A { a: string }\nconst y: A = { a: 'q' }\nenum E { P, Q }\ny.a + E.Q")
        equal(r.text, "'q1'")
        k.run("import { readFileSync } from 'fs'\nimport type { Stats } from 'fs'\nclass P { constructor(private n: number) {} get() { return this.n } }")
        equal(k.run("typeof readFileSync + new P(3).get()").text, "'function3'", "kept for the next cell")
        equal(k.run("const v = await Promise.resolve<number>(4); v as any").text, "4")
        equal(k.run("const bad: = 4").error["name"], "SyntaxError")
        equal(k.run("throw new TypeError('x' as string)").error["name"], "TypeError")


def test_typescript_needs_something_that_removes_types():
    with Kernel("typescript", env={"PATH": "/nonexistent"}) as k:
        if k.run("typeof require('module').stripTypeScriptTypes").error is None:
            return  # this node does it by itself, or the compiler is there
        has(k.run("const x: number = 1").error["value"], "esbuild")


run(globals())

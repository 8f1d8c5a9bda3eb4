// What goes wrong with cells: clients that leave, kernels and servers that die, sandboxes that end, many contexts, much
// output. After each the next cell works.
// server: pool_size=2 memory_default=1G
// server at gvisor: memory_default=2G
// interpreter
import { check, e2b, equal, fails, matches, run, test, until, within } from './harness.mjs'
import { need, printed, start, value } from './interpreter.mjs'

const ENDLESS = {
  python: 'import time\nkept = 1\nwhile True: pass',
  javascript: 'globalThis.kept = 1; while (true) {}',
  bash: 'kept=1; while :; do :; done',
  r: 'kept <- 1; while (TRUE) {}',
}
const AFTER = { python: 'print(kept)', javascript: 'console.log(kept)', bash: 'echo $kept', r: 'cat(kept, "\\n")' }

for (const language of Object.keys(ENDLESS)) {
  test(`a client that leaves interrupts ${language}`, async (t) => {
    const sandbox = await start(t)
    await need(t, sandbox, language)
    await sandbox.runCode('1', { language }) // started
    await fails(sandbox.runCode(ENDLESS[language], { language, timeoutMs: 300 }), e2b.TimeoutError, /timed out|timeout/i)
    const after = await within(sandbox.runCode(AFTER[language], { language }), 8, 'the next cell')
    equal(printed(after).trim(), '1', 'with its state')
  }, { seconds: 30 })
}

test('a client that leaves while it sleeps, and one that waits in the queue', async (t) => {
  const sandbox = await start(t)
  const slow = sandbox.runCode('import time\ntime.sleep(60)', { timeoutMs: 600 })
  const queued = sandbox.runCode('open("/tmp/ran", "w")', { timeoutMs: 200 })
  await fails(queued, e2b.TimeoutError)
  await fails(slow, e2b.TimeoutError)
  equal(value(await within(sandbox.runCode('import os; os.path.exists("/tmp/ran")'), 8)), 'False', 'a cell that nobody waits for')
})

test('a kernel that dies', async (t) => {
  const sandbox = await start(t)
  const context = await sandbox.createCodeContext()
  await sandbox.runCode('other = 1', { context })
  const died = await sandbox.runCode('x = 1\nprint("before", flush=True)\nimport os\nos.kill(os.getpid(), 9)')
  matches(died.error.name, /ContextRestarting|WebSocketError/)
  equal(died.logs.stdout.join(''), 'before\n')
  equal((await sandbox.runCode('x')).error.value, "name 'x' is not defined")
  equal((await sandbox.runCode('1 + 1')).text, '2')
  equal((await sandbox.runCode('other', { context })).text, '1', 'other contexts are not touched')
  const js = await sandbox.runCode('process.exit(3)', { language: 'js' })
  equal([js.error.name, /process\.exit\(3\)/.test(js.error.value)], ['ProcessExit', true])
  equal((await sandbox.runCode('1 + 1', { language: 'js' })).text, '2')
  const segv = await sandbox.runCode('import ctypes; ctypes.string_at(0)')
  check(segv.error, 'a crash without error')
  equal((await sandbox.runCode('1 + 1')).text, '2')
})

test('all kernels killed from outside, then the server', async (t) => {
  const sandbox = await start(t)
  await sandbox.runCode('1')
  const kill = (pattern) => sandbox.commands.run(`for p in /proc/[0-9]*; do if tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -q '${pattern}'; then kill -9 \${p#/proc/} 2>/dev/null; fi; done; true`, { user: 'root' })
  const works = async () => {
    try {
      return (await sandbox.runCode('1 + 1', { requestTimeoutMs: 5000 })).text === '2'
    } catch {
      return false
    }
  }
  await kill('kernel[.]py')
  await until(works, 'python after its kernels', 30, 200)
  await kill('interpreter[ ]serve')
  await until(works, 'the server', 30, 200)
  const { stdout } = await sandbox.commands.run("curl -s -o /dev/null -w '%{http_code}' http://0.0.0.0:49999/health")
  equal(stdout, '200')
}, { seconds: 70 })

test('a sandbox that is killed while it runs code', async (t) => {
  const sandbox = await start(t)
  const begun = sandbox.runCode('import time\nprint(1, flush=True)\ntime.sleep(60)', { onStdout: () => sandbox.kill() })
  await fails(begun, e2b.TimeoutError, /killed|not found|terminated/i, 15)
})

test('fifty contexts', async (t) => {
  const sandbox = await start(t) // gVisor needs 25 MB for each: doc/interpreter.md
  const contexts = []
  for (let i = 0; i < 50; i++) contexts.push(await sandbox.createCodeContext({ cwd: '/tmp' }))
  equal((await sandbox.listCodeContexts()).length, 52)
  await Promise.all(contexts.map((context, i) => sandbox.runCode(`x = ${i}`, { context })))
  const values = await Promise.all(contexts.map((context) => sandbox.runCode('x', { context })))
  equal(values.map((e) => Number(value(e))), contexts.map((_, i) => i))
  const more = []
  const full = async () => {
    try {
      more.push(await sandbox.createCodeContext())
    } catch (e) {
      return e
    }
  }
  matches((await until(full, 'the bound', 20, 1)).message, /64|contexts|limit|429|500/i)
  check(more.length <= 14, `${more.length} more contexts`)
  await Promise.all([...contexts, ...more].map((context) => sandbox.removeCodeContext(context)))
  equal((await sandbox.listCodeContexts()).length, 2)
  equal((await sandbox.runCode('1 + 1')).text, '2')
}, { seconds: 60 })

test('much output, and bytes that are no text', async (t) => {
  const sandbox = await start(t)
  const much = await sandbox.runCode("for i in range(200): print(str(i % 10) * 100_000)")
  equal(printed(much).length, 200 * 100_001)
  const odd = await sandbox.runCode("import os, sys\nos.write(1, b'a\\xff\\xfeb\\n')\nsys.stdout.buffer.write(b'\\xc3(\\n')\n0")
  check(odd.logs.stdout.join('').includes('a\ufffd\ufffdb'), JSON.stringify(odd.logs.stdout))
  equal(odd.text, '0')
  equal((await sandbox.runCode("'y' * 900_000")).text.length, 900_000)
}, { seconds: 40 })

await run()

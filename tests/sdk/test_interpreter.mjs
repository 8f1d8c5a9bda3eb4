// @e2b/code-interpreter unchanged: runCode in every language, contexts, streams, rich results, variables, directories.
// server: pool_size=2
// interpreter
import { check, differs, e2b, equal, fails, interpreter, matches, patience, run, test } from './harness.mjs'
import { Sandbox, need, needModule, printed, start, value } from './interpreter.mjs'

test('lifecycle, commands and files of its base class', async (t) => {
  const sandbox = await start(t)
  equal(await sandbox.isRunning(), true)
  equal((await sandbox.commands.run('whoami; pwd')).stdout, 'user\n/home/user\n')
  await sandbox.files.write('f', 'x')
  const again = await Sandbox.connect(sandbox.sandboxId)
  equal(await again.files.read('f'), 'x')
  equal(printed(await again.runCode("print(open('f').read())")), 'x\n')
  equal(value(await sandbox.runCode('kept = 41\nkept')), '41')
  equal(await again.pause(), true)
  await sandbox.connect()
  equal((await sandbox.getInfo()).state, 'running')
  equal(value(await sandbox.runCode('kept + 1')), '42', 'kernels outlive a pause')
  equal(await sandbox.kill(), true)
  equal(await sandbox.isRunning(), false)
}, { seconds: 60 })

test('python: one cell', async (t) => {
  const sandbox = await start(t)
  const execution = await sandbox.runCode("x = 1\nx += 1\nprint('hello')\nx")
  equal(execution.logs, { stdout: ['hello\n'], stderr: [] })
  equal(execution.text, '2')
  equal(execution.executionCount, 1)
  equal(execution.results.length, 1)
  equal(execution.results[0].isMainResult, true)
  equal(execution.results[0].extra ?? {}, {})
  equal((await sandbox.runCode('')).results, [], 'no code')
  equal((await sandbox.runCode('  y = 3\n  y')).text, '3', 'indented as a whole')
  equal((await sandbox.runCode("'quoted'")).text, 'quoted')
  equal((await sandbox.runCode('import sys; print(1, file=sys.stderr)')).logs, { stdout: [], stderr: ['1\n'] })
  equal(printed(await sandbox.runCode("print('\\u00e9 \\U0001f600')")), '\u00e9 \u{1f600}\n')
})

test('python: errors', async (t) => {
  const sandbox = await start(t)
  const { error, text, results } = await sandbox.runCode('def f():\n    return 1 / 0\nf()')
  equal([error.name, error.value], ['ZeroDivisionError', 'division by zero'])
  matches(error.traceback, /ZeroDivisionError[\s\S]*return 1 \/ 0/)
  check(!error.traceback.includes('\x1b'), 'colours in the traceback')
  equal([text, results], [undefined, []])
  equal((await sandbox.runCode('if')).error.name, 'SyntaxError')
  equal((await sandbox.runCode('missing')).error.value, "name 'missing' is not defined")
  equal((await sandbox.runCode('2 + 2')).text, '4', 'the next cell')
})

test('python: shell, magics, await', async (t) => {
  const sandbox = await start(t)
  await needModule(t, sandbox, 'IPython')
  equal(printed(await sandbox.runCode('!pwd')), '/home/user\n')
  await sandbox.runCode('%cd /tmp')
  equal(printed(await sandbox.runCode('!pwd')), '/tmp\n')
  equal(printed(await sandbox.runCode('files = !echo a; echo b\nprint(files)')), "['a', 'b']\n")
  equal(value(await sandbox.runCode("import asyncio\nawait asyncio.sleep(0.01, 'waited')")), 'waited')
  equal(printed(await sandbox.runCode('%%bash\necho from bash')), 'from bash\n')
})

test('counts', async (t) => {
  const sandbox = await start(t)
  for (const n of [1, 2, 3]) equal((await sandbox.runCode('1')).executionCount, n)
  const context = await sandbox.createCodeContext()
  equal((await sandbox.runCode('1', { context })).executionCount, 1)
})

test('streams', async (t) => {
  const sandbox = await start(t)
  const told = []
  const execution = await sandbox.runCode(
    "import sys, time\nfor i in range(3):\n    print(i); sys.stdout.flush(); time.sleep(0.15)\nprint('e', file=sys.stderr)\ndisplay(5)\n1 / 0",
    {
      onStdout: (m) => told.push(['out', m.line, m.error, typeof m.timestamp]),
      onStderr: (m) => told.push(['err', m.line, m.error]),
      onResult: (r) => told.push(['result', r.text, r.isMainResult]),
      onError: (e) => told.push(['error', e.name]),
    },
  )
  equal(told.filter(([kind]) => kind === 'out').map(([, line]) => line), ['0\n', '1\n', '2\n'], 'as they come')
  equal(told.find(([kind]) => kind === 'err'), ['err', 'e\n', true])
  equal(told.find(([kind]) => kind === 'result'), ['result', '5', false])
  equal(told.at(-1), ['error', 'ZeroDivisionError'])
  equal(execution.logs.stdout.join(''), '0\n1\n2\n')
})

test('contexts', async (t) => {
  const sandbox = await start(t)
  const first = await sandbox.listCodeContexts()
  equal(first.map((c) => c.language).sort(), ['javascript', 'python'], 'there from the start')
  equal(first.map((c) => c.cwd), ['/home/user', '/home/user'])
  const one = await sandbox.createCodeContext()
  const two = await sandbox.createCodeContext({ cwd: '/root', language: 'python' })
  equal([one.cwd, one.language, two.cwd], ['/home/user', 'python', '/root'])
  check(one.id !== two.id, 'the same id')
  equal((await sandbox.listCodeContexts()).map((c) => c.id).slice(-2), [one.id, two.id], 'newest last')

  await sandbox.runCode('x = 1', { context: one })
  equal((await sandbox.runCode('x', { context: one })).text, '1')
  equal((await sandbox.runCode('x', { context: two })).error.value, "name 'x' is not defined")
  equal((await sandbox.runCode('x')).error.name, 'NameError', 'the default context is another')
  equal(value(await sandbox.runCode('import os; os.getcwd()', { context: two })), '/root')

  await sandbox.restartCodeContext(one)
  const after = await sandbox.runCode('x', { context: one })
  equal([after.error.value, after.executionCount], ["name 'x' is not defined", 1])
  await sandbox.removeCodeContext(two.id)
  await fails(sandbox.runCode('1', { context: two }), e2b.NotFoundError, /not found/i)
  await fails(sandbox.removeCodeContext(two), e2b.NotFoundError)
  await fails(sandbox.restartCodeContext(two), e2b.NotFoundError)
  equal((await sandbox.listCodeContexts()).length, 3)
})

test('executions of one context wait for each other, those of two do not', async (t) => {
  const sandbox = await start(t)
  const context = await sandbox.createCodeContext()
  const slow = "import time; a = time.time(); time.sleep(0.7); print(a, time.time())"
  const times = (e) => printed(e).split(' ').map(Number)
  const runs = await Promise.all([sandbox.runCode(slow), sandbox.runCode(slow), sandbox.runCode(slow, { context })])
  const [a, b, other] = runs.map(times)
  check(a[1] <= b[0] || b[1] <= a[0], `one after the other: ${a} ${b}`)
  const overlaps = (p, q) => p[0] < q[1] && q[0] < p[1]
  check(overlaps(other, a) || overlaps(other, b), 'another context does not wait')
  equal(new Set(runs.slice(0, 2).map((e) => e.executionCount)), new Set([1, 2]))
})

test('variables', async (t) => {
  const sandbox = await start(t, { envs: { SESSION: "it's \"quoted\" $HOME", BOTH: 'session' } })
  const show = "import os\nos.environ.get('SESSION'), os.environ.get('BOTH'), os.environ.get('CALL')"
  equal(value(await sandbox.runCode(show)), `('it\\'s "quoted" $HOME', 'session', None)`)
  const envs = { BOTH: 'call', CALL: "a 'b' \"c\"" }
  equal(printed(await sandbox.runCode("print(os.environ['BOTH'], os.environ['CALL'])", { envs })), `call a 'b' "c"\n`)
  equal(value(await sandbox.runCode(show)), `('it\\'s "quoted" $HOME', 'session', None)`, 'restored')
  const context = await sandbox.createCodeContext()
  equal(value(await sandbox.runCode("import os; os.environ['SESSION'][:4]", { context })), "it's", 'in each context')
  equal(printed(await sandbox.runCode('echo "$BOTH|$CALL"', { language: 'bash', envs })), `call|a 'b' "c"\n`)
  equal(printed(await sandbox.runCode('echo "$BOTH|$CALL"', { language: 'bash' })), 'session|\n')
})

test('javascript', async (t) => {
  const sandbox = await start(t)
  await need(t, sandbox, 'javascript')
  const js = (code, more) => sandbox.runCode(code, { language: 'js', ...more })
  equal(printed(await js("console.log('Hello, World!')")), 'Hello, World!\n')
  equal(value(await js("import { readFileSync } from 'fs'\ntypeof readFileSync")), 'function')
  equal(value(await js('const a = await Promise.resolve(20); a + 1')), '21')
  equal(value(await js('a + 2')), '22')
  equal(value(await js("const f = async () => 'Hello, World!'\nf()")), 'Hello, World!', 'a promise as last value')
  equal(value(await js('const a = 5; a')), '5', 'declared again')
  equal((await js('({ x: [1] })')).results[0].json, { x: [1] })
  equal(value(await js('process.env.CALL', { envs: { CALL: 'c' } })), 'c')
  equal((await js('process.env.CALL')).results, [])
  const { error } = await js("throw new TypeError('bad')")
  equal([error.name, error.value], ['TypeError', 'bad'])
  equal(value(await js('process.cwd()')), '/home/user')
  const streamed = []
  await js("for (const i of [1, 2]) console.log(i); console.error('e')", {
    onStdout: (m) => streamed.push(m.line),
    onStderr: (m) => streamed.push(m.line),
  })
  equal(streamed.join(''), '1\n2\ne\n')
})

test('typescript', async (t) => {
  const sandbox = await start(t)
  await need(t, sandbox, 'typescript')
  const ts = (code) => sandbox.runCode(code, { language: 'ts' })
  equal(printed(await ts("const message: string = 'Hello, World!'\nconsole.log(message)")), 'Hello, World!\n')
  equal(value(await ts('enum E { A, B }\ninterface I { e: E }\nconst i: I = { e: E.B }; i.e')), '1')
  equal(value(await ts("import { EOL } from 'os'\nfunction id<T>(x: T): T { return x }\nid<number>(3)")), '3')
  equal(value(await ts('EOL.length + message.length')), '14')
  equal((await ts('const x: = 1')).error.name, 'SyntaxError')
  equal((await sandbox.runCode('typeof message', { language: 'javascript' })).text, 'undefined', 'its own context')
})

test('bash', async (t) => {
  const sandbox = await start(t)
  const sh = (code, more) => sandbox.runCode(code, { language: 'bash', ...more })
  equal(printed(await sh('echo "Hello, World!"; pwd')), 'Hello, World!\n/home/user\n')
  await sh('x=5; f() { echo "f $x"; }; cd /tmp')
  equal(printed(await sh('f; pwd')), 'f 5\n/tmp\n')
  const { error } = await sh('exit 3')
  equal([error.name, error.value], ['ExitStatus', '3'])
  equal(printed(await sh('f')), 'f 5\n', 'exit does not end the context')
})

test('r', async (t) => {
  const sandbox = await start(t)
  await need(t, sandbox, 'r')
  const r = (code, more) => sandbox.runCode(code, { language: 'r', ...more })
  equal(printed(await r('x <- "Hello, World!"\nprint(x)')), '[1] "Hello, World!"\n')
  equal((await r('getwd()')).results[0].text.trim(), '[1] "/home/user"')
  equal(printed(await r('cat(Sys.getenv("CALL"))', { envs: { CALL: 'c' } })), 'c')
  equal((await r('stop("bad")')).error.value, 'bad')
  matches((await r('plot(1:3)')).results[0].png, /^iVBORw0KGgo/)
  const context = await sandbox.createCodeContext({ language: 'r', cwd: '/tmp' })
  equal((await sandbox.runCode('getwd()', { context })).text, '[1] "/tmp"')
}, { seconds: 40 })

test('java', async (t) => {
  const sandbox = await start(t)
  await need(t, sandbox, 'java')
  const java = (code, more) => sandbox.runCode(code, { language: 'java', timeoutMs: 60_000 * patience, ...more })
  equal(printed(await java('System.out.println("Hello, World!");')), 'Hello, World!\n')
  equal(value(await java('int x = 20;\nx + 1')), '21')
  equal(value(await java('System.getProperty("CALL")', { envs: { CALL: 'c' } })), 'c')
  equal(value(await java('System.getProperty("CALL", "none")')), 'none')
  equal(value(await java('System.getProperty("user.dir")')), '/home/user')
  equal((await java('int y = 1 / 0;')).error.name, 'ArithmeticException')
}, { seconds: 60 })

test('languages that there are not', async (t) => {
  const sandbox = await start(t)
  await fails(sandbox.runCode('1', { language: 'cobol' }), e2b.SandboxError, /cobol|500|400/)
  await fails(sandbox.createCodeContext({ language: 'cobol' }), e2b.SandboxError)
  const context = await sandbox.createCodeContext()
  await fails(sandbox.runCode('1', { context, language: 'python' }), e2b.InvalidArgumentError)
  equal((await sandbox.runCode('1', { language: ' PYTHON ' })).text, '1', 'in any case')
})

test('rich results', async (t) => {
  const sandbox = await start(t)
  await needModule(t, sandbox, 'IPython')
  const { results } = await sandbox.runCode(
    `from IPython.display import *
display(HTML('<b>x</b>'), Markdown('# m'), SVG('<svg xmlns="http://www.w3.org/2000/svg"/>'), JSON({'a': [1]}), Javascript('1'))
display({'text/latex': '\\\\alpha'}, raw=True)
display({'application/pdf': 'cGRm', 'x/unknown': 1}, raw=True)
display(Image(data=b'\\x89PNG\\r\\n\\x1a\\nrest', format='png'), Image(data=b'\\xff\\xd8\\xff', format='jpeg'))
{'list': [1, 2]}`,
  )
  const fields = (r) => r.formats().filter((name) => name !== 'text').sort().join()
  equal(results.map(fields), ['html', 'markdown', 'svg', 'json', 'javascript', 'latex', 'pdf', 'png', 'jpeg', 'json'])
  equal(results[5].formats(), ['latex'], 'only latex')
  equal([results[0].html, results[1].markdown, results[3].json], ['<b>x</b>', '# m', { a: [1] }])
  equal(results[6].raw.extra, { 'x/unknown': 1 })
  equal(Buffer.from(results[7].png, 'base64').subarray(1, 4).toString(), 'PNG')
  equal([results.at(-1).isMainResult, results.at(-1).json], [true, { list: [1, 2] }])
})

test('figures, charts and data', async (t) => {
  const sandbox = await start(t)
  await needModule(t, sandbox, 'matplotlib, pandas, PIL')
  const { results, error } = await sandbox.runCode(
    `import matplotlib.pyplot as plt
plt.figure()
plt.plot([1, 2, 3], [4, 5, 6], label='rise')
plt.xlabel('time (s)'); plt.ylabel('speed'); plt.title('T')
plt.show()
'after'`,
  )
  equal(error, undefined)
  equal(results.length, 2)
  matches(results[0].png, /^iVBORw0KGgo/)
  const { chart } = results[0]
  equal([chart.type, chart.title, chart.x_label, chart.x_unit, chart.y_unit], ['line', 'T', 'time (s)', 's', null])
  equal(chart.elements, [{ label: 'rise', points: [[1, 4], [2, 5], [3, 6]] }])
  equal([results[0].isMainResult, results[1].isMainResult, results[1].text], [false, true, 'after'])

  const frame = await sandbox.runCode("import pandas as pd\npd.DataFrame({'a': [1, 2], 'd': pd.to_datetime(['2024-01-02', '2024-01-03'])})")
  equal(frame.results[0].data.a, [1, 2])
  matches(frame.results[0].data.d[0], /^2024-01-02T00:00:00/)
  matches(frame.results[0].html, /<table/)

  const image = await sandbox.runCode("from PIL import Image\ni = Image.new('RGB', (4, 4))\ni.save('t.png'); i.show(); i")
  equal(image.results.map((r) => r.png?.startsWith('iVBORw0KGgo')), [true, true, true])
}, { seconds: 60 })

test('the interpreter inside its own sandbox', async (t) => {
  const sandbox = await start(t)
  const { stdout } = await sandbox.commands.run("curl -s -o /dev/null -w '%{http_code}' http://0.0.0.0:49999/health")
  equal(stdout, '200')
  const { stdout: who } = await sandbox.commands.run('ps -o user= -C cordon-interpreter 2>/dev/null | sort -u || true')
  if (who !== '') equal(who.trim(), 'root')
})

test('a sandbox that only a token opens', async (t) => {
  const sandbox = await start(t, { network: { allowPublicTraffic: false } })
  equal((await sandbox.runCode('1 + 1')).text, '2')
  sandbox.trafficAccessToken = undefined
  await fails(sandbox.runCode('1 + 1'), e2b.SandboxError)
})

test('a wrong access token is refused, none is not', async (t) => {
  const sandbox = await start(t)
  const to = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49999', 'Content-Type': 'application/json' }
  const status = async (headers) => {
    const answer = await fetch(process.env.E2B_SANDBOX_URL + '/execute', { method: 'POST', headers: { ...to, ...headers }, body: '{"code":"1"}' })
    await answer.text()
    return answer.status
  }
  equal(await status({}), 200)
  equal(await status({ 'X-Access-Token': 'wrong' }), 401)
})

test('values of secrets are masked, and each call has a record', async (t) => {
  const value = 'v4lue-"of"-\\a-secret'
  const native = async (method, path, body) => {
    const headers = { 'X-API-Key': process.env.E2B_API_KEY, 'Content-Type': 'application/json' }
    const answer = await fetch(process.env.E2B_API_URL + path, { method, headers, body: body && JSON.stringify(body) })
    check(answer.ok, `${method} ${path}: ${answer.status}`)
    return answer.status === 204 ? undefined : answer.json()
  }
  await native('POST', '/v1/secrets', { name: 'masked', value, ways: ['env'] })
  const session = await native('POST', '/v1/sessions', { template: interpreter, timeout: '5m', secrets: [{ name: 'masked', as: 'env', env: 'V' }] })
  const sandbox = t.keep(await Sandbox.connect(session.id))
  const seen = { stdout: '', stderr: '', results: [], errors: [] }
  const callbacks = {
    onStdout: (m) => (seen.stdout += m.line),
    onStderr: (m) => (seen.stderr += m.line),
    onResult: (r) => seen.results.push(r),
    onError: (e) => seen.errors.push(e),
  }
  await sandbox.runCode("import os, sys, time\nv = os.environ['V']\nclass R:\n  def _repr_html_(self): return v\n  def _repr_json_(self): return {'a': [v]}\n  def __repr__(self): return v", callbacks)
  const bytewise = 'for c in v: sys.stdout.write(c); sys.stdout.flush(); sys.stderr.write(c); sys.stderr.flush()'
  const slow = differs('values printed byte by byte')
  if (slow) {
    // It may take longer than a byte is held back: what has left by then is shown, and what is there with the last byte is covered.
    const { stdout, stderr } = (await sandbox.runCode(bytewise)).logs
    for (const text of [stdout.join(''), stderr.join('')]) {
      const shown = text.indexOf('*')
      check(shown >= 0 && shown < value.length, text)
      equal(text, value.slice(0, shown) + '*'.repeat(value.length - shown))
    }
  }
  const codes = ['print(v, v, sep="|")', slow ? 'print(v, end=""); print(v, end="", file=sys.stderr)' : bytewise, 'v', '{"k": v}', 'display(R())', 'raise ValueError(v)', 'if v +']
  for (const code of codes) {
    const { error, logs, results } = await sandbox.runCode(code, callbacks)
    check(error || logs.stdout.length || results.length, code)
    check(!/v4lue|a-secret/.test(JSON.stringify([error, logs, results])), `${code}: ${JSON.stringify([error, logs, results])}`)
  }
  check(!/v4lue|a-secret/.test(JSON.stringify(seen)), JSON.stringify(seen))
  const stars = '*'.repeat(value.length)
  equal([seen.stdout, seen.stderr], [`${stars}|${stars}\n${stars}`, stars])
  for (const text of [seen.results[0].text, seen.results[2].html, seen.results[2].json.a[0], seen.errors[0].value]) matches(text, /^'?\*+'?$/)
  const { executions } = await native('GET', `/v1/sessions/${session.id}/executions?order=asc`)
  equal(executions.filter((x) => !x.background && x.command === null).map((x) => x.exit_code), [...(slow ? [0] : []), 0, 0, 0, 0, 0, 0, 1, 1])
  await native('DELETE', '/v1/secrets/masked')
})

await run()

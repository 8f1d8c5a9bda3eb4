// A session of a data analyst, 200 cells in one context: notebook/cells.py, with what a Jupyter kernel answered to them in
// notebook/expected.json (see notebook/expect.py). Cells that need a package which this machine does not have are skipped.
// server: pool_size=2 memory_default=1G
// interpreter
import { readFileSync } from 'node:fs'
import { check, equal, run, test } from './harness.mjs'
import { start } from './interpreter.mjs'

const folder = new URL('./notebook/', import.meta.url)
const read = (name) => readFileSync(new URL(name, folder), 'utf8')

function cells() {
  const parts = read('cells.py').split(/^# %%(.*)\n/m).slice(1)
  const list = []
  for (let i = 0; i < parts.length; i += 2) list.push({ needs: parts[i].replace('needs', '').trim(), code: parts[i + 1].replace(/\n+$/, '') })
  return list
}

// Without what differs from one run or one kernel to the next: times, names of files of cells, ends of lines of terminals.
const plain = (text) =>
  text
    .replace(/\r/g, '')
    .replace(/after [\d.]+ seconds/, 'after some seconds')
    .replace(/\((?:[^(),]*, )?line (\d+)\)/, '(line $1)')

function differences(want, got) {
  const found = []
  const same = (what, a = '', b = '') => plain(a) === plain(b) || found.push(`${what}: got ${JSON.stringify(b)}, want ${JSON.stringify(a)}`)
  same('stdout', want.stdout, got.logs.stdout.join(''))
  same('text', want.text, got.text)
  same('error', want.error?.join(': '), got.error ? `${got.error.name}: ${got.error.value}` : '')
  const formats = got.results.map((r) => [...r.formats(), ...(r.text === undefined ? [] : ['text'])])
  same('results', String(want.formats?.length ?? 0), String(formats.length))
  want.formats?.forEach((names, i) => {
    const missing = names.filter((name) => !formats[i]?.includes(name))
    if (missing.length > 0) found.push(`result ${i} has ${formats[i]}, not ${missing}`)
  })
  return found
}

test('two hundred cells', async (t) => {
  const sandbox = await start(t)
  const expected = JSON.parse(read('expected.json'))
  const list = cells()
  check(list.length >= 200, `only ${list.length} cells`)
  equal(list.length, expected.length, 'cells and expectations')
  const lacking = new Set()
  for (const name of new Set(list.map((cell) => cell.needs).filter(Boolean))) {
    const there = await sandbox.runCode(`import importlib.util\nimportlib.util.find_spec('${name}') is not None`)
    if (there.text !== 'True') lacking.add(name)
  }
  await sandbox.restartCodeContext((await sandbox.listCodeContexts()).find((c) => c.language === 'python'))
  const wrong = []
  let count = 0
  for (const [i, cell] of list.entries()) {
    if (lacking.has(cell.needs)) continue
    const got = await sandbox.runCode(cell.code)
    count += 1
    if (got.executionCount !== count) wrong.push(`cell ${i}: count ${got.executionCount}, want ${count}`)
    for (const why of differences(expected[i], got)) wrong.push(`cell ${i} ${JSON.stringify(cell.code.slice(0, 60))}: ${why}`)
  }
  console.log(`# ${count} cells, ${list.length - count} skipped${lacking.size > 0 ? `: no ${[...lacking].join(', ')}` : ''}`)
  check(wrong.length === 0, `\n${wrong.join('\n')}`)
}, { seconds: 90 })

await run()

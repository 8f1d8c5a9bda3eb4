// The examples of doc/e2b.md and doc/interpreter.md, as a user runs them: nothing but the package and the three variables.
// server: pool_size=2
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { check, e2b, equal, matches, run, test } from './harness.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..')

test('the five-minute example', async () => {
  // Beside the packages, which node looks for in the folders above.
  const folder = join(process.env.SDK_PACKAGES, 'example')
  mkdirSync(folder, { recursive: true })
  cpSync(join(root, 'examples', 'e2b', 'hello.mjs'), join(folder, 'hello.mjs'))
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(folder, 'hello.mjs')], { timeout: 30_000 })
  equal(stderr, '')
  const lines = stdout.trim().split('\n')
  matches(lines.shift(), /^sandbox [a-z0-9]{1,39}$/)
  equal(lines, [
    'primes [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37]',
    'streamed line 1',
    'streamed line 2',
    'streamed line 3',
    'exit code 3 to stderr',
    'server says 200 true',
    'files after pause true',
    'gone true',
  ])
  const left = await e2b.Sandbox.list().nextItems()
  equal(left, [], 'sandboxes left')
})

test('MCP servers in a sandbox', async () => {
  const folder = join(process.env.SDK_PACKAGES, 'example')
  mkdirSync(folder, { recursive: true })
  cpSync(join(root, 'examples', 'e2b', 'mcp.mjs'), join(folder, 'mcp.mjs'))
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(folder, 'mcp.mjs')], { timeout: 30_000 })
  equal(stderr, '')
  matches(stdout, /^tools clock__now\nanswer it is 2/)
  equal(await e2b.Sandbox.list().nextItems(), [], 'sandboxes left')
}, { seconds: 40 })

test('the agent that writes code', async () => {
  const folder = join(process.env.SDK_PACKAGES, 'example')
  mkdirSync(folder, { recursive: true })
  cpSync(join(root, 'examples', 'interpreter', 'agent.mjs'), join(folder, 'agent.mjs'))
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(folder, 'agent.mjs')], { timeout: 30_000, cwd: folder })
  equal(stderr, '')
  const told = stdout.split('\n').filter((line) => /^[>=!T]/.test(line) && !line.startsWith('> \n'))
  equal(told.shift(), "! KeyError: 'revenue'")
  equal(told.shift(), '> day,region,units,price')
  check(told.some((line) => line === "= {'north': 30.0, 'south': 155.0, 'east': 174.0}"), stdout)
  check(told.some((line) => line === '= chart.png, bar of north 30, south 155, east 174' || line === '> east   #################'), stdout)
  equal(told.at(-1), 'The region with the largest revenue is east')
  equal(await e2b.Sandbox.list().nextItems(), [], 'sandboxes left')
}, { seconds: 40 })

test('the example asks for the SDK that is tested', async () => {
  const example = JSON.parse(readFileSync(join(root, 'examples', 'e2b', 'package.json')))
  const tested = JSON.parse(readFileSync(join(root, 'tests', 'sdk', 'package.json')))
  check(example.dependencies.e2b === tested.dependencies.e2b, 'another version of e2b')
  const agent = JSON.parse(readFileSync(join(root, 'examples', 'interpreter', 'package.json')))
  const name = '@e2b/code-interpreter'
  check(agent.dependencies[name] === tested.dependencies[name], `another version of ${name}`)
})

await run()

// harness.mjs - what every file of SDK tests needs: the packages, TAP, sandboxes that go with their test.
//
//     import { e2b, test, run, equal, fails } from './harness.mjs'
//     test('a name', async (t) => { const sandbox = await t.create(); equal(await sandbox.isRunning(), true) })
//     await run()
//
// tests/sdk/run.py starts the server and then node with E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL, as a user would
// set them. Tests run in order; neighbours with { together: true } run at the same time, because they mostly wait.
import assert from 'node:assert'
import http from 'node:http'
import net from 'node:net'
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'

const require = createRequire(process.env.SDK_PACKAGES + '/package.json')
export const load = (name) => require(name)
export const resolve = (name) => require.resolve(name)
export const e2b = load('e2b')
export const url = new URL(process.env.E2B_API_URL ?? 'https://127.0.0.1') // over TLS there is a domain instead
export const address = url.host
export { sleep }

// --- the level of the suite, as in tests/shared/level.py

const { name: level, differences, patience, interpreter } = JSON.parse(process.env.SDK_LEVEL)
const met = new Set() // differences that tests have met since the last line about them
export { interpreter, level, patience } // interpreter: the template that has one at this level

// Whether this level differs from a container in what has this name (tests/shared/level_differences.py).
export function differs(name) {
  check(name in differences, `no difference has the name ${name}`)
  const here = level in differences[name]
  if (here) met.add(name)
  return here
}

// --- saying no

export function check(good, what) {
  if (!good) throw new assert.AssertionError({ message: what })
}

const plain = (value) => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)))

// Members that are undefined do not count: the SDK leaves some behind.
export function equal(got, want, what = '') {
  try {
    assert.deepStrictEqual(plain(got), plain(want))
  } catch (e) {
    e.message = `${what} ${e.message}`
    throw e
  }
}

export function near(got, want, within, what = '') {
  check(Math.abs(got - want) <= within, `${what}: got ${got}, want ${want} within ${within}`)
}

export function matches(text, pattern, what = '') {
  check(pattern.test(text), `${what}: ${JSON.stringify(String(text).slice(0, 500))} does not match ${pattern}`)
}

// A promise that must be rejected: by exactly this class, with such a message, soon.
export async function fails(promise, kind, pattern, seconds = 8) {
  const began = Date.now()
  let got
  try {
    got = await within(promise, seconds, 'a refusal')
  } catch (e) {
    if (e instanceof Late) throw e
    if (e.constructor.name !== kind.name) {
      throw new assert.AssertionError({ message: `rejected by ${e.constructor.name}, want ${kind.name}: ${e.stack}` })
    }
    if (pattern) matches(e.message, pattern, `message of ${kind.name}`)
    check(Date.now() - began < seconds * patience * 1000, `the refusal took ${Date.now() - began} ms`)
    return e
  }
  throw new assert.AssertionError({ message: `not rejected, but ${JSON.stringify(got)?.slice(0, 300)}` })
}

export class Late extends Error {}

// Bounds of time are those of level container: all are longer where programs are emulated.
export async function within(promise, time, what = 'it') {
  const seconds = time * patience
  const stop = new AbortController()
  const late = sleep(seconds * 1000, undefined, { signal: stop.signal }).then(() => {
    throw new Late(`${what} does not come within ${seconds} s`)
  })
  late.catch(() => {})
  try {
    return await Promise.race([promise, late])
  } finally {
    stop.abort()
  }
}

// Asks until the answer is true, and gives it.
export async function until(ask, what = 'it', time = 10, step = 20) {
  const seconds = time * patience
  const end = Date.now() + seconds * 1000
  for (;;) {
    const answer = await ask()
    if (answer) return answer
    if (Date.now() > end) throw new Late(`${what} does not come within ${seconds} s`)
    await sleep(step) // between two looks
  }
}

export async function collect(paginator) {
  const items = []
  while (paginator.hasNext) items.push(...(await paginator.nextItems()))
  return items
}

// --- HTTP without an SDK

// { status, headers, body, text, json } of one request to the server; host: the Host header.
export function request(method, path, { headers = {}, body, host, agent, onHead } = {}) {
  return new Promise((done, failed) => {
    const all = { ...headers, ...(host ? { Host: host } : {}) }
    // node leaves the length out where a method seldom has a body
    const whole = typeof body === 'string' || Buffer.isBuffer(body)
    if (whole && !('Transfer-Encoding' in all)) all['Content-Length'] = Buffer.byteLength(body)
    const [hostname, port] = [url.hostname, url.port]
    const asked = http.request({ method, path, hostname, port, headers: all, agent, setHost: !host }, (answer) => {
      onHead?.(answer, asked)
      const parts = []
      answer.on('data', (part) => parts.push(part))
      answer.on('error', failed)
      answer.on('end', () => {
        const data = Buffer.concat(parts)
        const got = { status: answer.statusCode, headers: answer.headers, body: data, text: data.toString() }
        Object.defineProperty(got, 'json', { get: () => JSON.parse(got.text) })
        done(got)
      })
    })
    asked.on('error', failed)
    asked.end(body)
  })
}

// --- what only the operator can do: see run.py

const link = new net.Socket({ fd: Number(process.env.SDK_OPERATOR), readable: true, writable: true })
const waiting = new Map()
let orders = 0
let rest = ''
link.setEncoding('utf8')
link.on('data', (text) => {
  const lines = (rest + text).split('\n')
  rest = lines.pop()
  for (const line of lines) {
    const answer = JSON.parse(line)
    const [done, failed] = waiting.get(answer.id)
    waiting.delete(answer.id)
    if ('error' in answer) failed(new Error(`operator: ${answer.error}`))
    else done(answer.ok)
  }
})

export function operator(what, more = {}) {
  orders += 1
  const n = orders
  link.write(JSON.stringify({ n, do: what, ...more }) + '\n')
  return new Promise((done, failed) => waiting.set(n, [done, failed]))
}

// --- running the tests

const tests = []

export function test(name, body, { seconds = 20, together = false } = {}) {
  tests.push({ name, body, seconds, together })
}

// What this machine cannot do: told and counted, not failed.
class Skip extends Error {}

class Context {
  #made = []

  skip(why) {
    throw new Skip(why)
  }

  // A sandbox that ends with the test. The arguments are those of Sandbox.create.
  async create(...args) {
    return this.keep(await e2b.Sandbox.create(...args))
  }

  keep(sandbox) {
    this.#made.push(sandbox.sandboxId)
    return sandbox
  }

  async end() {
    await Promise.all(this.#made.map((id) => e2b.Sandbox.kill(id).catch(() => false)))
  }
}

async function attempt({ body, seconds }) {
  const t = new Context()
  const began = Date.now()
  let why
  let skipped
  try {
    await within(
      Promise.resolve().then(() => body(t)),
      seconds,
      'the end of the test',
    )
  } catch (e) {
    if (e instanceof Skip) skipped = e.message
    else why = e.stack ?? String(e)
    if (e.cause) why += `\ncause: ${e.cause.stack ?? e.cause}`
  }
  await within(t.end(), 10, 'the end of its sandboxes').catch((e) => (why ??= e.stack))
  return { why, skipped, took: Date.now() - began }
}

let strays = []
process.on('unhandledRejection', (e) => strays.push(e?.stack ?? String(e)))

export async function run() {
  const wanted = process.argv.slice(2)
  const chosen = tests.filter(({ name }) => wanted.length === 0 || wanted.some((w) => name.includes(w)))
  console.log(`1..${chosen.length}`)
  let bad = 0
  for (let i = 0; i < chosen.length;) {
    const group = [chosen[i++]]
    while (group[0].together && i < chosen.length && chosen[i].together) group.push(chosen[i++])
    strays = []
    met.clear()
    const results = await Promise.all(group.map(attempt))
    if (strays.length > 0) results.at(-1).why ??= `a rejection that nobody handled: ${strays.join('\n')}`
    group.forEach(({ name }, k) => {
      const { why, skipped, took } = results[k]
      bad += why !== undefined
      const end = skipped && why === undefined ? ` # SKIP ${skipped}` : ''
      console.log(`${why === undefined ? 'ok' : 'not ok'} ${i - group.length + k + 1} - ${name}${end}`)
      for (const line of `${why ? why + '\n' : ''}${(took / 1000).toFixed(2)} s`.split('\n')) console.log(`# ${line}`)
    })
    if (met.size > 0) console.log(`# differs at ${level}: ${[...met].join(', ')}`)
  }
  process.exit(bad > 0 || chosen.length === 0 ? 1 : 0)
}

// Ports of a sandbox, reached by host name and by header.
// server: pool_size=4
import { createHash, randomBytes } from 'node:crypto'
import http from 'node:http'
import { address, check, e2b, equal, load, request, run, sleep, test, until, within } from './harness.mjs'
import { serve } from './inside.mjs'

const { Agent, WebSocket } = load('undici')
const { Sandbox } = e2b

// Every name is this machine: what a wildcard entry in the DNS does for others.
const lookup = (name, options, done) =>
  options.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4)
const dispatcher = new Agent({ connect: { lookup } })
const open = (host, path, options = {}) => fetch(`http://${host}${path}`, { dispatcher, ...options })
const byHeader = (sandbox, port) => ({ 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': String(port) })

test('a server in the sandbox, by the address that getHost gives', async (t) => {
  const sandbox = await t.create()
  await serve(sandbox, 3000)
  const answer = await open(sandbox.getHost(3000), '/some/path?q=a%20b&q=2', { headers: { 'X-Mine': 'yes' } })
  equal(answer.status, 200)
  const seen = await answer.json()
  equal([seen.method, seen.path, seen.headers['x-mine']], ['GET', '/some/path?q=a%20b&q=2', 'yes'])
  equal(seen.headers.host, sandbox.getHost(3000))
  check(
    !('connection' in seen.headers) || !/keep-alive, /.test(seen.headers.connection),
    'hop-by-hop headers stay outside',
  )
})

test('the same by the headers of the SDK', async (t) => {
  const sandbox = await t.create()
  await serve(sandbox, 3000)
  const answer = await request('POST', '/x', { headers: byHeader(sandbox, 3000), body: 'hello' })
  equal([answer.status, answer.json.method, answer.json.length], [200, 'POST', 5])
})

test('methods, statuses and headers go through as they are', async (t) => {
  const sandbox = await t.create()
  await serve(sandbox, 3000)
  const host = sandbox.getHost(3000)
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
    const answer = await request(method, '/m', { host, body: method === 'GET' ? undefined : 'body' })
    equal([answer.status, answer.json.method], [200, method])
  }
  const head = await request('HEAD', '/m', { host })
  equal([head.status, head.body.length], [200, 0])
  check(Number(head.headers['content-length']) > 0, 'HEAD has the length')
  for (const status of [201, 302, 404, 418, 500, 503]) {
    const answer = await request('GET', `/status/${status}`, { host })
    equal([answer.status, answer.text, answer.headers['x-inside']], [status, 'as asked', 'yes'])
    equal(answer.headers['set-cookie'], ['a=1', 'b=2'])
  }
})

test('large bodies, both ways, with a length and in chunks', async (t) => {
  const sandbox = await t.create()
  await serve(sandbox, 3000)
  const host = sandbox.getHost(3000)
  const data = randomBytes(8 << 20)
  const sum = createHash('sha256').update(data).digest('hex')
  const counted = await request('PUT', '/up', { host, body: data })
  equal([counted.json.length, counted.json.sha256], [data.length, sum])
  const chunked = await request('PUT', '/up', { host, body: data, headers: { 'Transfer-Encoding': 'chunked' } })
  equal([chunked.json.length, chunked.json.sha256], [data.length, sum])
  const big = await request('GET', '/big', { host })
  equal(
    [big.body.length, createHash('sha256').update(big.body).digest('hex')],
    [
      16 << 20,
      createHash('sha256')
        .update(Buffer.concat(Array(1 << 16).fill(Buffer.from(Array.from({ length: 256 }, (_, i) => i)))))
        .digest('hex'),
    ],
  )
})

test('events come as they are sent', async (t) => {
  const sandbox = await t.create()
  await serve(sandbox, 3000)
  const answer = await open(sandbox.getHost(3000), '/sse')
  equal(answer.headers.get('content-type'), 'text/event-stream')
  const times = []
  let text = ''
  for await (const part of answer.body) {
    text += Buffer.from(part)
    times.push(Date.now())
  }
  equal(text, 'data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\n')
  check(times.length >= 4 && times.at(-1) - times[0] > 500, `not as they were sent: ${times.map((x) => x - times[0])}`)
})

test('an answer that breaks off is seen to', async (t) => {
  const sandbox = await t.create()
  await serve(sandbox, 3000)
  const broken = await request('GET', '/cut', { host: sandbox.getHost(3000) }).then(
    () => undefined,
    (e) => e,
  )
  check(broken !== undefined, 'half an answer was taken for a whole one')
})

const socket = (address, options) =>
  new Promise((done, failed) => {
    const ws = new WebSocket(address, options)
    ws.binaryType = 'arraybuffer'
    ws.heard = []
    ws.onmessage = ({ data }) => ws.heard.push(data)
    ws.onopen = () => done(ws)
    ws.onerror = (e) => failed(e.error ?? new Error('no WebSocket'))
  })

test('WebSocket: by host name, text and bytes, small and large, and the end', async (t) => {
  const sandbox = await t.create()
  await serve(sandbox, 3000)
  const ws = await socket(`ws://${sandbox.getHost(3000)}/ws`, { dispatcher })
  await until(() => ws.heard[0] === 'welcome', 'the welcome')
  ws.send('hello ☃')
  await until(() => ws.heard[1] === 'hello ☃', 'the echo')
  const data = randomBytes(1 << 20)
  ws.send(data)
  await until(() => ws.heard[2] !== undefined, 'the large echo')
  check(Buffer.from(ws.heard[2]).equals(data), 'bytes are changed')
  const closed = new Promise((done) => (ws.onclose = done))
  ws.close(1000, 'enough')
  equal((await within(closed, 5, 'the end')).code, 1000)
})

test('WebSocket: many at once by header; the sandbox’s death ends them', async (t) => {
  const sandbox = await t.create()
  await serve(sandbox, 3000)
  const headers = byHeader(sandbox, 3000)
  const all = await Promise.all(Array.from({ length: 20 }, () => socket(`ws://${address}/ws`, { dispatcher, headers })))
  all.forEach((ws, i) => ws.send(`number ${i}`))
  await until(() => all.every((ws, i) => ws.heard[1] === `number ${i}`), 'all echoes')
  const ends = all.map((ws) => new Promise((done) => ((ws.onclose = done), (ws.onerror = () => {}))))
  await sandbox.kill()
  await within(Promise.all(ends), 5, 'the end of all')
})

test('what the edge says when nothing is there', async (t) => {
  const sandbox = await t.create()
  const id = sandbox.sandboxId
  const closed = await request('GET', '/', { host: sandbox.getHost(4444) })
  equal(
    [closed.status, closed.json],
    [502, { sandboxId: id, message: 'The sandbox is running but port is not open', port: 4444, code: 502 }],
  )
  await sandbox.pause()
  const paused = await request('GET', '/', { host: sandbox.getHost(4444) })
  equal([paused.status, paused.json], [502, { sandboxId: id, message: 'The sandbox was not found', code: 502 }])
  await sandbox.kill()
  const gone = await request('GET', '/', { headers: byHeader(sandbox, 4444) })
  equal([gone.status, gone.json], [502, { sandboxId: id, message: 'The sandbox was not found', code: 502 }])
  const browser = await request('GET', '/', {
    host: sandbox.getHost(4444),
    headers: { 'User-Agent': 'Mozilla/5.0 (X11; Linux x86_64)', Accept: 'text/html' },
  })
  equal(browser.status, 502)
  check(
    /^text\/html/.test(browser.headers['content-type']) && /<!doctype html/i.test(browser.text),
    'a browser gets a page',
  )
})

test('servers on IPv6 only, started late, and ended', async (t) => {
  const sandbox = await t.create()
  const get = async () => (await request('GET', '/', { host: sandbox.getHost(5000) })).status
  equal(await get(), 502)
  await sandbox.files.write('f', '')
  const handle = await sandbox.commands.run('/usr/bin/python3 -m http.server 5000 --bind ::1', {
    background: true,
    timeoutMs: 0,
  })
  await until(async () => (await get()) === 200, 'the server', 8)
  await handle.kill()
  await until(async () => (await get()) === 502, 'its end', 4)
})

test('two sandboxes with the same port do not mix', async (t) => {
  const [a, b] = [await t.create(), await t.create()]
  for (const [sandbox, text] of [
    [a, 'of a'],
    [b, 'of b'],
  ]) {
    await sandbox.files.write('www/t', text)
    await sandbox.commands.run('/usr/bin/python3 -m http.server 8000 -d www', { background: true, timeoutMs: 0 })
  }
  const get = (sandbox) => request('GET', '/t', { host: sandbox.getHost(8000) })
  for (const sandbox of [a, b]) await until(async () => (await get(sandbox)).status === 200, 'the server')
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  const over = (sandbox) => request('GET', '/t', { host: sandbox.getHost(8000), agent })
  const all = []
  for (let i = 0; i < 10; i++) all.push((await over(i % 2 ? b : a)).text)
  agent.destroy()
  equal(
    all,
    Array.from({ length: 10 }, (_, i) => (i % 2 ? 'of b' : 'of a')),
    'over one connection',
  )
})

test('many requests at once', async (t) => {
  const sandbox = await t.create()
  await serve(sandbox, 3000)
  const all = await Promise.all(
    Array.from({ length: 100 }, (_, i) => request('GET', `/n/${i}`, { host: sandbox.getHost(3000) })),
  )
  equal(
    all.map((a) => a.json.path),
    Array.from({ length: 100 }, (_, i) => `/n/${i}`),
  )
})

test('a sandbox that dies in the middle of an answer', async (t) => {
  const sandbox = await t.create()
  await serve(sandbox, 3000)
  let began
  const head = new Promise((done) => (began = done))
  const answer = request('GET', '/sse', { host: sandbox.getHost(3000), onHead: began }).then(
    () => 'whole',
    () => 'broken',
  )
  await head
  await sleep(100) // some of the body has come
  await sandbox.kill()
  equal(await within(answer, 5, 'the end of the answer'), 'broken')
  equal(await Sandbox.kill(sandbox.sandboxId), false)
})

await run()

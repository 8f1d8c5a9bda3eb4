// Pause and resume: what is kept, what is refused, what wakes a sandbox up.
// server: pool_size=4
import { check, e2b, equal, fails, request, run, sleep, test, until } from './harness.mjs'

const { Sandbox, SandboxError, SandboxNotFoundError, TimeoutError } = e2b
const onTraffic = { lifecycle: { onTimeout: 'pause', autoResume: true } }

test('pause: true, then false; connect wakes it up and every handle works', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.write('a', 'kept')
  equal(await sandbox.pause(), true)
  equal(await sandbox.pause(), false)
  equal(await sandbox.betaPause(), false)
  equal(await Sandbox.pause(sandbox.sandboxId), false)
  equal(await Sandbox.betaPause(sandbox.sandboxId), false)
  equal((await sandbox.getInfo()).state, 'paused')
  equal(await sandbox.isRunning(), false)
  const again = await Sandbox.connect(sandbox.sandboxId)
  equal(again.envdAccessToken, sandbox.envdAccessToken, 'the token survives')
  equal((await again.getInfo()).state, 'running')
  equal(await sandbox.isRunning(), true)
  equal(await again.files.read('a'), 'kept')
  equal((await sandbox.commands.run('cat a')).stdout, 'kept')
})

test('programs stand still and go on', async (t) => {
  const sandbox = await t.create()
  const ticks = 'i=0; while :; do i=$((i+1)); echo $i > n; sleep 0.05; done'
  const handle = await sandbox.commands.run(ticks, { background: true, timeoutMs: 0 })
  await until(async () => Number(await sandbox.files.read('n').catch(() => 0)) > 3, 'a few ticks')
  const before = Number(await sandbox.files.read('n'))
  await sandbox.pause()
  await sleep(1500) // a request would wake the sandbox
  await sandbox.connect()
  const after = Number(await sandbox.files.read('n'))
  check(after - before < 20, `${after - before} ticks while paused`)
  await until(async () => Number(await sandbox.files.read('n')) > after + 3, 'more ticks')
  const list = await sandbox.commands.list()
  equal(
    list.map((p) => p.pid),
    [handle.pid],
  )
  equal(await sandbox.commands.kill(handle.pid), true)
})

test('a paused sandbox refuses work, quickly', async (t) => {
  const sandbox = await t.create()
  await sandbox.pause()
  await fails(sandbox.commands.run('true'), SandboxNotFoundError)
  await fails(sandbox.files.read('x'), TimeoutError)
  await fails(sandbox.files.list('.'), TimeoutError)
  equal((await sandbox.getInfo()).state, 'paused', 'none of it woke it up')
})

test('setTimeout of a paused sandbox is refused', async (t) => {
  const sandbox = await t.create()
  await sandbox.pause()
  let refused
  try {
    await sandbox.setTimeout(60_000)
  } catch (e) {
    refused = e
  }
  check(
    refused instanceof SandboxNotFoundError || (refused instanceof SandboxError && refused.statusCode === 409),
    String(refused),
  )
})

test('a paused sandbox can be killed', async (t) => {
  const sandbox = await t.create()
  await sandbox.pause()
  equal(await sandbox.kill(), true)
  await fails(Sandbox.connect(sandbox.sandboxId), SandboxNotFoundError)
  await fails(sandbox.pause(), SandboxNotFoundError)
})

test('paused and resumed many times', async (t) => {
  const sandbox = await t.create()
  for (let i = 0; i < 10; i++) {
    equal(await sandbox.pause(), true, `pause ${i}`)
    await sandbox.connect()
    equal((await sandbox.commands.run(`echo ${i}`)).stdout, `${i}\n`)
  }
})

test('many connects at once wake it up once', async (t) => {
  const sandbox = await t.create()
  await sandbox.pause()
  const handles = await Promise.all(Array.from({ length: 10 }, () => Sandbox.connect(sandbox.sandboxId)))
  equal(await Promise.all(handles.map((h) => h.isRunning())), Array(10).fill(true))
})

test('auto-resume: a command, a file and a request wake it up', async (t) => {
  const sandbox = await t.create({ timeoutMs: 60_000, ...onTraffic })
  equal((await sandbox.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: true })
  await sandbox.files.write('a', 'kept')
  await sandbox.pause()
  equal((await sandbox.commands.run('cat a')).stdout, 'kept')
  equal((await sandbox.getInfo()).state, 'running')
  await sandbox.pause()
  equal(await sandbox.files.read('a'), 'kept')
  equal((await sandbox.getInfo()).state, 'running')
  const served = await sandbox.commands.run('/usr/bin/python3 -m http.server 8123', { background: true, timeoutMs: 0 })
  const get = () => request('GET', '/a', { host: sandbox.getHost(8123) })
  await until(async () => (await get()).status === 200, 'the server inside')
  await sandbox.pause()
  const answer = await get()
  equal([answer.status, answer.text], [200, 'kept'])
  equal((await sandbox.getInfo()).state, 'running')
  equal(await sandbox.commands.kill(served.pid), true)
})

test('auto-resume: asking about it does not wake it up, and a stranger gets nothing', async (t) => {
  const sandbox = await t.create({ timeoutMs: 60_000, ...onTraffic })
  await sandbox.pause()
  equal((await sandbox.getInfo()).state, 'paused')
  equal(
    (await Sandbox.list({ query: { state: ['paused'] } }).nextItems()).map((s) => s.sandboxId),
    [sandbox.sandboxId],
  )
  const stranger = await request('GET', '/files?path=a', {
    headers: { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49983' },
  })
  equal(stranger.status, 401, 'a request without a token')
})

await run()

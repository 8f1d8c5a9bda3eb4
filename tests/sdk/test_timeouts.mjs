// Time: how long sandboxes live, and what happens when it is over. Most tests wait, so they run together.
// server: pool_size=8
import { check, e2b, equal, fails, level, matches, near, run, sleep, test, until } from './harness.mjs'

const { Sandbox, SandboxError, SandboxNotFoundError, TimeoutError } = e2b
const second = level === 'container' ? 1000 : 4000 // ms, of lives that are short, but long enough for what is done in them
const together = { together: true, seconds: 30 }

const left = async (sandbox) => (await sandbox.getInfo()).endAt - Date.now()

test('setTimeout lengthens and shortens, from now on', async (t) => {
  const sandbox = await t.create({ timeoutMs: 60_000 })
  await sandbox.setTimeout(120_000)
  near(await left(sandbox), 120_000, 2000)
  await sandbox.setTimeout(30_000)
  near(await left(sandbox), 30_000, 2000)
  await Sandbox.setTimeout(sandbox.sandboxId, 90_000)
  near(await left(sandbox), 90_000, 2000)
  const { startedAt } = await sandbox.getInfo()
  near(startedAt.getTime(), Date.now(), 10_000, 'startedAt stays')
})

test('connect lengthens, but does not shorten', async (t) => {
  const sandbox = await t.create({ timeoutMs: 100_000 })
  await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 10_000 })
  near(await left(sandbox), 100_000, 3000, 'not shortened')
  await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 200_000 })
  near(await left(sandbox), 200_000, 3000, 'lengthened')
  await Sandbox.connect(sandbox.sandboxId)
  near(await left(sandbox), 300_000, 3000, 'a connect that does not say: 300 s')
})

test('times that cannot be', async (t) => {
  for (const timeoutMs of [0, -1000]) {
    const e = await fails(Sandbox.create({ timeoutMs }), SandboxError, /Timeout must be greater than 0/)
    equal(e.statusCode, 400)
  }
  const e = await fails(Sandbox.create({ timeoutMs: 48 * 3600_000 }), SandboxError, /^400: /)
  equal(e.statusCode, 400, 'longer than the server allows')
  await fails(Sandbox.setTimeout('i0000000000000000', 1000), SandboxNotFoundError)
  const sandbox = await t.create()
  await sandbox.setTimeout(48 * 3600_000)
  const info = await sandbox.getInfo()
  check(info.endAt - info.startedAt <= 24 * 3600_000 + 1500, `lives ${info.endAt - info.startedAt} ms`)
})

test(
  'a sandbox whose time is over is gone',
  async (t) => {
    const sandbox = await t.create({ timeoutMs: second })
    equal(await sandbox.isRunning(), true)
    const began = Date.now()
    await until(async () => !(await sandbox.isRunning()), 'the end', 6)
    check(Date.now() - began > 500, 'ended too early')
    await fails(sandbox.getInfo(), SandboxNotFoundError)
    equal(await sandbox.kill(), false)
  },
  together,
)

test(
  'setTimeout(0) ends it at once',
  async (t) => {
    const sandbox = await t.create({ timeoutMs: 60_000 })
    await sandbox.setTimeout(0)
    await until(async () => !(await sandbox.isRunning()), 'the end', 4)
  },
  together,
)

test(
  'a command that runs when the time is over is told so',
  async (t) => {
    const sandbox = await t.create({ timeoutMs: 1.5 * second })
    const e = await fails(
      sandbox.commands.run('echo began; sleep 60'),
      TimeoutError,
      /killed or reached its end of life/,
      10,
    )
    matches(e.message, /end of life/)
  },
  together,
)

test(
  'with onTimeout pause it is paused, keeps everything, and can be connected to',
  async (t) => {
    const sandbox = await t.create({ timeoutMs: second, lifecycle: { onTimeout: 'pause' } })
    await sandbox.files.write('kept', 'yes')
    equal((await sandbox.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: false })
    await until(async () => (await sandbox.getInfo()).state === 'paused', 'the pause', 6)
    equal(await sandbox.isRunning(), false, 'no traffic wakes it')
    const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 50_000 })
    equal((await again.getInfo()).state, 'running')
    near(await left(again), 50_000, 2500)
    equal(await again.files.read('kept'), 'yes')
    equal(await sandbox.files.read('kept'), 'yes', 'the old handle works')
  },
  together,
)

test(
  'paused time does not count',
  async (t) => {
    const sandbox = await t.create({ timeoutMs: 3 * second })
    await sandbox.pause()
    await sleep(3.5 * second) // longer than its time
    equal((await sandbox.getInfo()).state, 'paused')
    await sandbox.connect({ timeoutMs: 20_000 })
    near(await left(sandbox), 20_000, 2500)
  },
  together,
)

test(
  'a sandbox with requestTimeoutMs and signals: the client gives up, the sandbox does not',
  async (t) => {
    const sandbox = await t.create()
    const stop = new AbortController()
    const running = sandbox.commands.run('sleep 2; echo done > finished', { background: true, signal: stop.signal })
    const handle = await running
    stop.abort()
    await handle.wait().then(
      () => check(false, 'an aborted wait came back'),
      () => {},
    )
    await until(() => sandbox.files.exists('finished'), 'the end of the command', 8)
  },
  together,
)

await run()

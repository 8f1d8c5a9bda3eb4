// Sandboxes that die while something is under way: every request that waits fails soon, with the right error.
// server: pool_size=8
import { check, e2b, equal, fails, operator, run, sleep, test, until, within } from './harness.mjs'

const { Sandbox, SandboxNotFoundError, TimeoutError } = e2b
const LIFE = /killed or reached its end of life/

// What a caller may be told, whatever it did when the sandbox died.
const proper = (e) =>
  e instanceof SandboxNotFoundError ||
  e instanceof TimeoutError ||
  /fetch failed|terminated|other side closed|ECONNRESET/.test(`${e.message} ${e.cause?.message}`)

test('during a command', async (t) => {
  const sandbox = await t.create()
  let up
  const began = new Promise((done) => (up = done))
  const running = sandbox.commands.run('echo up; sleep 60', { onStdout: up })
  running.catch(() => {})
  await began
  equal(await sandbox.kill(), true)
  await fails(running, TimeoutError, LIFE)
})

test('during a stream of output', async (t) => {
  const sandbox = await t.create()
  let lines = 0
  const running = sandbox.commands.run('yes', { onStdout: () => void lines++, timeoutMs: 0 })
  running.catch(() => {})
  await until(() => lines > 20, 'output')
  await sandbox.kill()
  await fails(running, TimeoutError, LIFE)
})

test('during a command in the background with several listeners', async (t) => {
  const sandbox = await t.create()
  const handle = await sandbox.commands.run('sleep 60', { background: true })
  const others = await Promise.all([1, 2, 3].map(() => sandbox.commands.connect(handle.pid)))
  await sandbox.kill()
  for (const one of [handle, ...others]) await fails(one.wait(), TimeoutError, LIFE)
})

test('during a terminal', async (t) => {
  const sandbox = await t.create()
  const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {} })
  await sandbox.kill()
  await fails(pty.wait(), TimeoutError, LIFE)
})

test('during a watch', async (t) => {
  const sandbox = await t.create()
  let exit
  const exited = new Promise((done) => (exit = done))
  await sandbox.files.watchDir('.', () => {}, { timeoutMs: 0, onExit: exit })
  await sandbox.kill()
  const e = await within(exited, 5, 'the exit')
  equal(e?.constructor.name, TimeoutError.name, String(e))
})

test('during an upload', async (t) => {
  const sandbox = await t.create()
  let sent = 0
  const endless = new ReadableStream({
    async pull(c) {
      c.enqueue(Buffer.alloc(65536))
      sent += 65536
      await sleep(2) // a slow upload
    },
  })
  const stop = new AbortController()
  const upload = sandbox.files.write('big', endless, { signal: stop.signal })
  upload.catch(() => {})
  await until(() => sent > 1 << 20, 'a megabyte')
  await sandbox.kill()
  const failed = await within(
    upload.then(
      () => 'written',
      (e) => e,
    ),
    8,
    'the end of the upload',
  )
  stop.abort()
  check(failed instanceof Error, `an upload to a dead sandbox: ${failed}`)
})

test('during a download', async (t) => {
  const sandbox = await t.create()
  await sandbox.commands.run('head -c 100000000 /dev/zero > big')
  const stream = await sandbox.files.read('big', { format: 'stream' })
  const reader = stream.getReader()
  await reader.read()
  await sandbox.kill()
  const rest = (async () => {
    let bytes = 0
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return bytes
      bytes += value.length
    }
  })()
  const end = await within(
    rest.catch((e) => e),
    8,
    'the end of the download',
  )
  check(end instanceof Error, `half a file was taken for a whole one: ${end} bytes`)
})

test('during a read of a whole file', async (t) => {
  const sandbox = await t.create()
  await sandbox.commands.run('mkfifo pipe; head -c 100000000 /dev/zero > big')
  const reading = sandbox.files.read('big', { format: 'bytes' }).then(
    (b) => b.length,
    (e) => e,
  )
  await sandbox.kill()
  const end = await within(reading, 8, 'the end of the read')
  check(end instanceof Error || end === 100_000_000, `read ${end}`)
})

test('during pause and resume', async (t) => {
  for (let i = 0; i < 5; i++) {
    const sandbox = await t.create()
    const pausing = sandbox.pause().catch((e) => e)
    equal(await sandbox.kill(), true)
    const paused = await pausing
    check(paused === true || paused instanceof Error, String(paused))
    equal(await sandbox.isRunning(), false)
  }
})

test('during its own creation: a client that goes away can clean up, and go on', async () => {
  const metadata = { left: 'behind' }
  for (const delay of [0, 1, 2, 4, 8]) {
    const stop = new AbortController()
    const creating = Sandbox.create({ metadata, signal: stop.signal }).then(
      (s) => s.kill(),
      () => {},
    )
    await sleep(delay) // the moment of the end varies
    stop.abort()
    await within(creating, 5, 'the end of a create')
  }
  const listed = () => Sandbox.list({ query: { metadata } }).nextItems()
  const left = await listed()
  check(left.length <= 5, `${left.length} of five`)
  equal(
    await Promise.all(left.map((s) => Sandbox.kill(s.sandboxId))),
    left.map(() => true),
  )
  equal(await listed(), [])
})

test('killed twice at the same time: one true', async (t) => {
  const sandbox = await t.create()
  const all = await Promise.all(Array.from({ length: 8 }, () => sandbox.kill()))
  check(all.filter(Boolean).length >= 1, 'nobody killed it')
  equal(await sandbox.kill(), false)
})

test('everything begun after the kill is refused at once', async (t) => {
  const sandbox = await t.create()
  const killing = sandbox.kill()
  const calls = Array.from({ length: 20 }, () =>
    sandbox.commands.run('true').then(
      () => 'ran',
      (e) => e,
    ),
  )
  await killing
  for (const end of await within(Promise.all(calls), 8)) {
    check(end === 'ran' || end instanceof SandboxNotFoundError || end instanceof TimeoutError, String(end.stack ?? end))
  }
  await fails(sandbox.commands.run('true'), SandboxNotFoundError)
})

test(
  'whatever is under way, at any moment',
  async (t) => {
    const works = [
      (s) => s.commands.run('echo a; sleep 5'),
      (s) => s.commands.run('seq 1 1000000'),
      async (s) => {
        for (;;) await s.files.write('f', 'x'.repeat(100_000))
      },
      async (s) => {
        for (;;) await s.files.list('/etc')
      },
      async (s) => {
        const handle = await s.commands.run('cat', { background: true, stdin: true })
        for (;;) await handle.sendStdin('more\n')
      },
      async (s) => {
        const pty = await s.pty.create({ cols: 80, rows: 24, onData: () => {} })
        await s.pty.sendInput(pty.pid, Buffer.from('yes\n'))
        await pty.wait()
      },
      async (s) => {
        for (;;) {
          await s.pause()
          await s.connect()
        }
      },
      async (s) => {
        for (;;) await s.git.init(`repo${Math.random()}`)
      },
    ]
    const one = async (work, delay) => {
      const sandbox = await t.create()
      const end = work(sandbox).then(
        (r) => r,
        (e) => e,
      )
      await sleep(delay) // the moment of the end varies
      await sandbox.kill()
      const e = await within(end, 8, `the end of ${work}`)
      check(!(e instanceof Error) || proper(e), `${work}: ${e?.stack}`)
      equal(await sandbox.isRunning(), false)
    }
    for (const delay of [0, 3, 10, 30, 80]) await Promise.all(works.map((work) => one(work, delay)))
  },
  { seconds: 60 },
)

test('killed from outside, by an accident of its PID 1', async (t) => {
  const sandbox = await t.create()
  const running = sandbox.commands.run('echo up; sleep 60')
  running.catch(() => {})
  const handle = await sandbox.commands.run('sleep 60', { background: true })
  await operator('kill_cell', { id: sandbox.sandboxId })
  await fails(running, TimeoutError, LIFE)
  await fails(handle.wait(), TimeoutError, LIFE)
  await until(async () => !(await sandbox.isRunning()), 'its end', 4)
  await until(
    () =>
      sandbox.getInfo().then(
        () => false,
        (e) => e instanceof SandboxNotFoundError,
      ),
    'its end in the list',
    4,
  )
})

test('a sandbox that ends itself', async (t) => {
  const sandbox = await t.create()
  const end = await within(
    sandbox.commands.run('sudo kill -9 1; sudo kill -9 -1; sleep 60', { timeoutMs: 4000 }).then(
      () => 'ran',
      (e) => e,
    ),
    8,
  )
  check(end instanceof Error, `it ended with ${JSON.stringify(end)}`)
  await within(sandbox.kill(), 5)
})

test('a sandbox that runs out of memory is survived by the others', async (t) => {
  const [victim, witness] = [await t.create(), await t.create()]
  const eats = `/usr/bin/python3 -c "x = []\nwhile True: x.append(bytearray(50_000_000))"`
  const end = await within(
    victim.commands.run(eats).then(
      () => 'ran',
      (e) => e,
    ),
    15,
  )
  check(end instanceof Error, 'memory has no end')
  equal((await witness.commands.run('echo here')).stdout, 'here\n')
})

// The connection that a download came by is used again, whenever the sandbox died.
test('right behind the last byte of a download', async (t) => {
  for (let i = 0; i < 20; i++) {
    const sandbox = await t.create()
    await sandbox.files.write('a', 'A')
    const url = await sandbox.downloadUrl('a')
    equal(await (await fetch(url)).text(), 'A')
    await sandbox.kill()
    const answer = await fetch(url)
    check([401, 502].includes(answer.status), `of the dead: ${answer.status}`) // whether it is all gone yet
    await answer.text()
  }
})

await run()

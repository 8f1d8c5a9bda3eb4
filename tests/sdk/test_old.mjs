// The SDK 2.46.1, which uses the first version of the interface.
// server: pool_size=4
import { createHash } from 'node:crypto'
import { check, e2b, equal, fails, load, near, run, test, until } from './harness.mjs'

const old = load('e2b246')
const { CommandExitError, FileNotFoundError, NotFoundError, Sandbox, SandboxNotFoundError, TimeoutError } = old

const make = async (t, ...args) => t.keep(await Sandbox.create(...args))

test('created, asked about, killed', async (t) => {
  const sandbox = await make(t, { metadata: { k: 'v' }, envs: { A: 'b' }, timeoutMs: 60_000 })
  const info = await sandbox.getInfo()
  equal(
    [info.sandboxId, info.templateId, info.state, info.metadata],
    [sandbox.sandboxId, 'base', 'running', { k: 'v' }],
  )
  near(info.endAt - info.startedAt, 60_000, 1500)
  equal((await sandbox.commands.run('echo $A')).stdout, 'b\n')
  equal(await sandbox.isRunning(), true)
  equal(
    (await Sandbox.list({ query: { metadata: { k: 'v' } } }).nextItems()).map((s) => s.sandboxId),
    [sandbox.sandboxId],
  )
  equal(await sandbox.kill(), true)
  equal(await sandbox.kill(), false)
  equal(await sandbox.isRunning(), false)
})

test('connect, pause, resume, time', async (t) => {
  const sandbox = await make(t, { timeoutMs: 60_000 })
  await sandbox.files.write('f', 'kept')
  const pause = (s) => (s.pause ?? s.betaPause).call(s)
  equal(await pause(sandbox), true)
  equal(await pause(sandbox), false)
  equal((await sandbox.getInfo()).state, 'paused')
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 30_000 })
  equal(await again.files.read('f'), 'kept')
  near((await again.getInfo()).endAt - Date.now(), 30_000, 2500)
  await again.setTimeout(90_000)
  near((await again.getInfo()).endAt - Date.now(), 90_000, 2500)
  await fails(Sandbox.connect('i0000000000000000'), SandboxNotFoundError ?? NotFoundError)
})

test('commands, stdin, background, errors', async (t) => {
  const sandbox = await make(t)
  const e = await fails(sandbox.commands.run('echo a; exit 2'), CommandExitError)
  equal([e.exitCode, e.stdout], [2, 'a\n'])
  const handle = await sandbox.commands.run('cat', { background: true, stdin: true })
  await sandbox.commands.sendStdin(handle.pid, 'text\n')
  await until(() => handle.stdout === 'text\n', 'the echo')
  equal(
    (await sandbox.commands.list()).map((p) => p.pid),
    [handle.pid],
  )
  equal(await handle.kill(), true)
  await fails(handle.wait(), CommandExitError, /signal: killed/)
  equal(await sandbox.commands.kill(handle.pid), false)
  await fails(sandbox.commands.run('sleep 60', { timeoutMs: 400 }), TimeoutError)
  equal((await sandbox.commands.run('whoami', { user: 'root' })).stdout, 'root\n')
})

test('files, metadata aside; a watch; a terminal', async (t) => {
  const sandbox = await make(t)
  const events = []
  await sandbox.files.makeDir('d')
  const watch = await sandbox.files.watchDir('d', (e) => void events.push(e), { timeoutMs: 0 })
  equal(await sandbox.files.write('d/f', 'x'), { name: 'f', type: 'file', path: '/home/user/d/f' })
  await until(() => events.some((e) => e.name === 'f' && e.type === 'write'), 'the event')
  await watch.stop()
  equal(
    (await sandbox.files.list('d')).map((e) => e.name),
    ['f'],
  )
  const moved = await sandbox.files.rename('d/f', 'd/g')
  equal(moved.path, '/home/user/d/g')
  await fails(sandbox.files.read('d/f'), FileNotFoundError ?? NotFoundError)
  let text = ''
  const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData: (d) => void (text += Buffer.from(d)) })
  await sandbox.pty.sendInput(pty.pid, Buffer.from('echo a""b\n'))
  await until(() => /[\r\n]ab\r\n/.test(text), 'the terminal')
  await sandbox.pty.kill(pty.pid)
})

test('signed addresses, and a megabyte', async (t) => {
  const sandbox = await make(t)
  const data = Buffer.alloc(1 << 20, 'cordon')
  await sandbox.files.write('big', new Blob([data]))
  const got = Buffer.from(
    await (await fetch(await sandbox.downloadUrl('big', { useSignatureExpiration: 60 }))).arrayBuffer(),
  )
  equal(createHash('sha256').update(got).digest('hex'), createHash('sha256').update(data).digest('hex'))
})

test('both SDKs share one sandbox', async (t) => {
  const theirs = await make(t)
  const ours = await e2b.Sandbox.connect(theirs.sandboxId)
  await ours.files.write('from', 'new')
  equal(await theirs.files.read('from'), 'new')
  check(ours.envdAccessToken === theirs.envdAccessToken, 'one token')
  equal(await ours.kill(), true)
  equal(await theirs.isRunning(), false)
})

await run()

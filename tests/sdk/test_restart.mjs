// The server dies and comes back: sandboxes, commands, tokens and handles do not notice for long.
// server: pool_size=2
// kills
import { check, e2b, equal, fails, operator, run, sleep, test, until, within } from './harness.mjs'

const { CommandExitError, Sandbox, SandboxNotFoundError } = e2b

const COUNT = 'i=0; while :; do i=$((i+1)); echo $i; sleep 0.1; done'

for (const [name, kill] of [
  [
    'cordond is killed',
    async () => {
      await operator('kill', { name: 'cordond' })
      await sleep(50) // the old daemon is gone
      await operator('ready')
    },
  ],
  [
    'the keeper is killed',
    async () => {
      await operator('kill', { name: 'keeper' })
      await sleep(50) // the old daemon is gone
      await operator('ready')
    },
  ],
  ['cordon serve is restarted', () => operator('restart')],
  ['cordon serve is killed and started again', () => operator('kill_supervisor')],
]) {
  test(
    `${name}: handles work on, a running command is connected to again`,
    async (t) => {
      const sandbox = await t.create({ metadata: { kept: 'yes' } })
      const before = await sandbox.getInfo()
      await sandbox.files.write('f', 'kept')
      const url = await sandbox.downloadUrl('f')
      const handle = await sandbox.commands.run(COUNT, { background: true, timeoutMs: 0, envs: { K: 'v' } })
      await until(() => handle.stdout.includes('3\n'), 'its output')
      const ended = handle.wait().catch((e) => e)
      await kill()
      if (name !== 'the keeper is killed') check((await ended) instanceof Error, 'the stream ended')
      await until(() => sandbox.isRunning().catch(() => false), 'the sandbox')
      equal((await sandbox.commands.run('cat f')).stdout, 'kept')
      equal(await sandbox.files.read('f'), 'kept')
      equal(await (await fetch(url)).text(), 'kept', 'a signed address')
      const after = await sandbox.getInfo()
      equal(
        [after.metadata, after.startedAt, after.endAt, after.templateId],
        [before.metadata, before.startedAt, before.endAt, before.templateId],
      )
      const [process] = await sandbox.commands.list()
      equal([process.pid, process.args, process.envs], [handle.pid, ['-l', '-c', COUNT], { K: 'v' }])
      const again = await sandbox.commands.connect(handle.pid, { timeoutMs: 0 })
      await until(() => /\d\n\d/.test(again.stdout), 'more of its output')
      equal(await again.kill(), true)
      const e = await fails(again.wait(), CommandExitError, /signal: killed/)
      equal(e.exitCode, -1)
      const other = await Sandbox.connect(sandbox.sandboxId)
      equal(other.envdAccessToken, sandbox.envdAccessToken)
    },
    { seconds: 40 },
  )
}

test(
  'what is under way when cordond dies is told so, and the next call works',
  async (t) => {
    const sandbox = await t.create()
    await sandbox.commands.run('head -c 100000000 /dev/zero > big')
    let exit
    const exited = new Promise((done) => (exit = done))
    await sandbox.files.watchDir('.', () => {}, { timeoutMs: 0, onExit: exit })
    const reader = (await sandbox.files.read('big', { format: 'stream' })).getReader()
    await reader.read()
    const rest = (async () => {
      while (!(await reader.read()).done);
    })()
    const broken = rest.then(
      () => undefined,
      (e) => e,
    )
    await operator('kill', { name: 'cordond' })
    check(
      (await within(broken, 8, 'the end of the download')) instanceof Error,
      'half a file was taken for a whole one',
    )
    check((await within(exited, 8, 'the end of the watch')) instanceof Error, 'a watch ended as if it were stopped')
    await operator('ready')
    await until(() => sandbox.isRunning().catch(() => false), 'the sandbox')
    equal((await sandbox.files.read('big', { format: 'bytes' })).length, 100_000_000)
    const next = await t.create()
    equal((await next.commands.run('echo new')).stdout, 'new\n')
  },
  { seconds: 40 },
)

test(
  'a paused sandbox is still paused, and wakes up',
  async (t) => {
    const sandbox = await t.create()
    await sandbox.files.write('f', 'kept')
    await sandbox.pause()
    await operator('restart')
    equal((await sandbox.getInfo()).state, 'paused')
    await sandbox.connect()
    equal(await sandbox.files.read('f'), 'kept')
  },
  { seconds: 40 },
)

test(
  'a terminal goes on',
  async (t) => {
    const sandbox = await t.create()
    const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {}, timeoutMs: 0 })
    await sandbox.pty.sendInput(pty.pid, Buffer.from('x=remembered\n'))
    await operator('kill', { name: 'cordond' })
    await sleep(50) // the old daemon is gone
    await operator('ready')
    await until(() => sandbox.isRunning().catch(() => false), 'the sandbox')
    let text = ''
    await sandbox.pty.connect(pty.pid, { onData: (d) => void (text += Buffer.from(d)), timeoutMs: 0 })
    await sandbox.pty.sendInput(pty.pid, Buffer.from('echo "<$x>"\n'))
    await until(() => text.includes('<remembered>'), 'its memory')
    await sandbox.pty.kill(pty.pid)
  },
  { seconds: 40 },
)

test(
  'one that was killed stays dead',
  async (t) => {
    const sandbox = await t.create()
    await sandbox.kill()
    await operator('restart')
    equal(await sandbox.isRunning(), false)
    await fails(sandbox.getInfo(), SandboxNotFoundError)
  },
  { seconds: 40 },
)

await run()

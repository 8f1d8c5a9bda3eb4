// Terminals.
// server: pool_size=2
import { check, e2b, equal, fails, run, test, until } from './harness.mjs'

const { AuthenticationError, CommandExitError, InvalidArgumentError, NotFoundError, SandboxError, TimeoutError } = e2b
const bytes = (text) => new TextEncoder().encode(text)

// A terminal with all that it shows, as text.
async function open(sandbox, opts = {}) {
  const screen = { text: '' }
  const onData = (data) => void (screen.text += Buffer.from(data).toString('latin1'))
  screen.pty = await sandbox.pty.create({ cols: 80, rows: 24, onData, ...opts })
  screen.type = (text) => sandbox.pty.sendInput(screen.pty.pid, bytes(text))
  screen.shows = (what, name) => until(() => what.test(screen.text), name ?? String(what))
  return screen
}

test('a shell on a terminal of the size that was asked for', async (t) => {
  const sandbox = await t.create()
  const screen = await open(sandbox, { cols: 91, rows: 37 })
  check(screen.pty.pid > 0, 'no pid')
  await screen.type('stty size; tty; echo "[$TERM $LANG $LC_ALL]"; whoami; pwd\n')
  await screen.shows(/37 91\r\n\/dev\/(pts\/\d+|\w+)\r\n\[xterm-256color C.UTF-8 C.UTF-8\]\r\nuser\r\n\/home\/user\r\n/)
  await screen.type('exit\n')
  equal((await screen.pty.wait()).exitCode, 0)
})

test('resize', async (t) => {
  const sandbox = await t.create()
  const screen = await open(sandbox)
  await screen.type('stty size\n')
  await screen.shows(/24 80\r\n/)
  await sandbox.pty.resize(screen.pty.pid, { cols: 132, rows: 50 })
  await screen.type('stty size\n')
  await screen.shows(/50 132\r\n/)
  await screen.pty.kill()
})

test('user, directory and environment', async (t) => {
  const sandbox = await t.create({ envs: { FROM: 'sandbox' } })
  const screen = await open(sandbox, { user: 'root', cwd: '/tmp', envs: { TERM: 'vt100', MORE: 'call' } })
  await screen.type('echo "<$(whoami) $(pwd) $TERM $MORE $FROM>"\n')
  await screen.shows(/<root \/tmp vt100 call sandbox>/)
  await screen.pty.kill()
  await fails(open(sandbox, { user: 'root123' }), AuthenticationError, /invalid username: 'root123'/)
  await fails(open(sandbox, { cwd: '/no/such' }), InvalidArgumentError, /cwd '\/no\/such' does not exist/)
})

test('exit code, kill, and control-C', async (t) => {
  const sandbox = await t.create()
  const screen = await open(sandbox)
  await screen.type('sleep 60\n')
  await until(async () => (await sandbox.commands.run('pgrep -x sleep || true')).stdout !== '', 'the sleep')
  await screen.type('\x03')
  await until(async () => (await sandbox.commands.run('pgrep -x sleep || true')).stdout === '', 'its interrupt')
  await screen.type('exit 7\n')
  equal((await fails(screen.pty.wait(), CommandExitError)).exitCode, 7)
  const other = await open(sandbox)
  equal(await sandbox.pty.kill(other.pty.pid), true)
  const e = await fails(other.pty.wait(), CommandExitError)
  equal([e.exitCode, e.error], [-1, 'signal: killed'])
  equal(await sandbox.pty.kill(other.pty.pid), false)
})

test('a second viewer; disconnected ones do not end it', async (t) => {
  const sandbox = await t.create()
  const screen = await open(sandbox)
  await screen.type('echo first\n')
  await screen.shows(/[\r\n]first\r\n/)
  let seen = ''
  const viewer = await sandbox.pty.connect(screen.pty.pid, { onData: (d) => void (seen += Buffer.from(d)) })
  await screen.pty.disconnect()
  await screen.type('echo sec""ond\n')
  await until(() => /second/.test(seen), 'what the viewer sees')
  await screen.type('exit\n')
  equal((await viewer.wait()).exitCode, 0)
  await fails(sandbox.pty.connect(3_999_999), NotFoundError)
})

test('it is among the processes', async (t) => {
  const sandbox = await t.create()
  const screen = await open(sandbox)
  const [one] = await sandbox.commands.list()
  equal([one.pid, one.cmd, one.args], [screen.pty.pid, '/bin/bash', ['-i', '-l']])
  await screen.pty.kill()
})

test('input and sizes for what is no terminal', async (t) => {
  const sandbox = await t.create()
  await fails(sandbox.pty.sendInput(3_999_999, bytes('x')), NotFoundError)
  await fails(sandbox.pty.resize(3_999_999, { cols: 1, rows: 1 }), NotFoundError)
  equal(await sandbox.pty.kill(3_999_999), false)
  const plain = await sandbox.commands.run('cat', { background: true, stdin: true })
  await fails(sandbox.pty.sendInput(plain.pid, bytes('x')), SandboxError, /^13: /)
  await plain.kill()
  const screen = await open(sandbox)
  await fails(sandbox.commands.sendStdin(screen.pty.pid, 'x'), SandboxError, /^13: /)
  await screen.pty.kill()
})

test('much typed and much shown', async (t) => {
  const sandbox = await t.create()
  const screen = await open(sandbox, { cols: 200 })
  await screen.type('stty -echo; PS1=; cat > typed; echo r""eady\n')
  const line = 'y'.repeat(99) + '\n'
  for (let i = 0; i < 20; i++) await screen.type(line.repeat(50))
  await screen.type('\x04')
  await screen.shows(/ready/)
  equal((await sandbox.files.getInfo('typed')).size, 100_000)
  await screen.type('seq 1 50000; echo e""nd\n')
  await screen.shows(/end/)
  const shown = screen.text.match(/^\d+\r$/gm).map(Number)
  equal(shown.length, 50000)
  check(
    shown.every((n, i) => n === i + 1),
    'a line is lost or changed',
  )
  await screen.pty.kill()
})

test('timeoutMs ends it', async (t) => {
  const sandbox = await t.create()
  const screen = await open(sandbox, { timeoutMs: 600 })
  await fails(screen.pty.wait(), TimeoutError, /timeoutMs/)
  await until(async () => (await sandbox.commands.list()).length === 0, 'its end', 4)
})

await run()

// What is written to commands.
// server: pool_size=2
import { createHash, randomBytes } from 'node:crypto'
import { e2b, equal, fails, run, test, until } from './harness.mjs'

const { CommandExitError, NotFoundError, SandboxError } = e2b
const withStdin = { stdin: true, background: true }

test('what is sent is read, and the end is the end', async (t) => {
  const sandbox = await t.create()
  const handle = await sandbox.commands.run('cat', withStdin)
  await handle.sendStdin('hello ')
  await handle.sendStdin('')
  await sandbox.commands.sendStdin(handle.pid, 'wörld ☃\n')
  await until(() => handle.stdout === 'hello wörld ☃\n', 'the echo')
  await handle.closeStdin()
  equal(await handle.wait(), { exitCode: 0, stdout: 'hello wörld ☃\n', stderr: '' })
})

test('a program that asks and is answered', async (t) => {
  const sandbox = await t.create()
  const handle = await sandbox.commands.run('read -p "name? " n; echo "hi $n"; read x; exit $x', withStdin)
  await handle.sendStdin('ada\n')
  await until(() => handle.stdout.includes('hi ada'), 'the answer')
  await handle.sendStdin('9\n')
  equal((await fails(handle.wait(), CommandExitError)).exitCode, 9)
})

test('bytes, many of them, arrive as they are', async (t) => {
  const sandbox = await t.create()
  const data = randomBytes(1 << 20)
  const handle = await sandbox.commands.run('sha256sum', withStdin)
  for (let at = 0; at < data.length; at += 1 << 18) await handle.sendStdin(data.subarray(at, at + (1 << 18)))
  await handle.closeStdin()
  equal((await handle.wait()).stdout.split(' ')[0], createHash('sha256').update(data).digest('hex'))
})

test('a reader that is slow gets everything, too', async (t) => {
  const sandbox = await t.create()
  const handle = await sandbox.commands.run('sleep 0.5; wc -c', withStdin)
  for (let i = 0; i < 4; i++) await handle.sendStdin('x'.repeat(100_000))
  await handle.closeStdin()
  equal((await handle.wait()).stdout.trim(), '400000')
})

test('a command without stdin reads nothing and takes nothing', async (t) => {
  const sandbox = await t.create()
  equal(await sandbox.commands.run('cat'), { exitCode: 0, stdout: '', stderr: '' })
  const handle = await sandbox.commands.run('sleep 60', { background: true, stdin: false })
  await fails(handle.sendStdin('x'), SandboxError, /stdin not enabled or closed/)
  await handle.kill()
})

test('after closeStdin nothing more can be sent', async (t) => {
  const sandbox = await t.create()
  const handle = await sandbox.commands.run('cat; sleep 60', withStdin)
  await handle.sendStdin('x')
  await sandbox.commands.closeStdin(handle.pid)
  await fails(handle.sendStdin('y'), SandboxError, /stdin not enabled or closed/)
  await handle.kill()
})

test('to one that has ended, or never was', async (t) => {
  const sandbox = await t.create()
  const handle = await sandbox.commands.run('true', withStdin)
  await handle.wait()
  await fails(handle.sendStdin('x'), NotFoundError)
  await fails(sandbox.commands.sendStdin(3_999_999, 'x'), NotFoundError, /process with pid 3999999 not found/)
  await fails(sandbox.commands.closeStdin(3_999_999), NotFoundError)
})

test('a second handle can write, too', async (t) => {
  const sandbox = await t.create()
  const handle = await sandbox.commands.run('cat', withStdin)
  const other = await sandbox.commands.connect(handle.pid)
  await other.sendStdin('from the other\n')
  await until(() => handle.stdout === 'from the other\n', 'the echo')
  await other.closeStdin()
  equal((await handle.wait()).exitCode, 0)
})

await run()

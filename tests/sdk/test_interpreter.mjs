// @e2b/code-interpreter: everything but running code, which its own template will do.
// server: pool_size=2
import { e2b, equal, fails, load, run, test } from './harness.mjs'

const { Sandbox } = load('@e2b/code-interpreter')

test('lifecycle, commands and files of its base class', async (t) => {
  const sandbox = t.keep(await Sandbox.create({ timeoutMs: 60_000 }))
  equal(await sandbox.isRunning(), true)
  equal((await sandbox.commands.run('whoami; pwd')).stdout, 'user\n/home/user\n')
  await sandbox.files.write('f', 'x')
  const again = await Sandbox.connect(sandbox.sandboxId)
  equal(await again.files.read('f'), 'x')
  equal(await again.pause(), true)
  await sandbox.connect()
  equal((await sandbox.getInfo()).state, 'running')
  equal(await sandbox.kill(), true)
  equal(await sandbox.isRunning(), false)
})

test('running code says quickly that nobody listens', async (t) => {
  const sandbox = t.keep(await Sandbox.create())
  await fails(sandbox.runCode('print(1)'), e2b.TimeoutError, /port is not open/)
  await fails(sandbox.createCodeContext(), e2b.TimeoutError, /port is not open/)
  equal(await sandbox.isRunning(), true)
})

await run()

// Novita's SDK, which is E2B's with a few more calls: clone and reset.
// server: pool_size=2
import { check, differs, equal, fails, load, run, test } from './harness.mjs'

process.env.NOVITA_API_KEY = process.env.E2B_API_KEY
process.env.NOVITA_API_URL = process.env.E2B_API_URL
process.env.NOVITA_SANDBOX_URL = process.env.E2B_SANDBOX_URL
const novita = load('novita-sandbox')
const { Sandbox } = novita
const opts = { timeoutMs: 60000 }

test('clone: the files, ids of their own; processes as the level has it', async () => {
  const sandbox = await Sandbox.create('base', opts)
  await sandbox.files.write('a', 'kept')
  await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  const made = await Sandbox.cloneSandboxes(sandbox.sandboxId, { count: 2, strict: true, ...opts })
  equal(made.sandboxes.length, 2)
  check(/^[a-z0-9]{20}:default$/.test(made.snapshotTemplateId), made.snapshotTemplateId)
  for (const one of made.sandboxes) {
    const child = await Sandbox.connect(one.sandboxId, opts)
    equal(await child.files.read('a'), 'kept')
    equal((await child.commands.list()).length, differs('memory images') ? 1 : 0)
    await child.kill()
  }
  const again = await Sandbox.create(made.snapshotTemplateId, opts)
  equal(await again.files.read('a'), 'kept', 'the snapshot is a template')
  await again.kill()
  equal(await Sandbox.deleteSnapshot(made.snapshotTemplateId), true)
  await sandbox.kill()
  await fails(Sandbox.cloneSandboxes(sandbox.sandboxId, opts), novita.SandboxNotFoundError)
})

test('reset: back to the start, the same id', async () => {
  const sandbox = await Sandbox.create('base', opts)
  await sandbox.files.write('a', 'dropped')
  equal(await Sandbox.reset(sandbox.sandboxId, { resume: true, ...opts }), true)
  equal(await sandbox.files.exists('a'), false)
  equal((await sandbox.commands.run('echo up')).stdout, 'up\n')
  await sandbox.kill()
  await fails(Sandbox.reset(sandbox.sandboxId, opts), novita.SandboxNotFoundError)
})

await run()

// Snapshots, forks and pauses without memory, as E2B's SDK asks for them; clone and reset as Novita's does.
// server: pool_size=2
import { check, differs, e2b, equal, fails, request as raw, run, test } from './harness.mjs'

const { Sandbox, SandboxError, SandboxNotFoundError } = e2b
const request = async (method, path, body) => {
  const headers = { 'X-API-Key': process.env.E2B_API_KEY, 'Content-Type': 'application/json' }
  const got = await raw(method, path, { headers, body: body === undefined ? undefined : JSON.stringify(body) })
  return { status: got.status, body: got.text ? got.json : null }
}
const boot = async (sandbox) => (await sandbox.files.read('/proc/sys/kernel/random/boot_id')).trim()

test('createSnapshot, create from it, listSnapshots, deleteSnapshot', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.write('a', 'kept')
  const sleeper = await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  const snapshot = await sandbox.createSnapshot()
  check(/^[a-z0-9]{20}:default$/.test(snapshot.snapshotId), snapshot.snapshotId)
  equal(snapshot.names, [])
  equal(await sandbox.isRunning(), true, 'the source goes on')
  await sandbox.files.write('a', 'changed later')
  for (const template of [snapshot.snapshotId, snapshot.snapshotId.split(':')[0]]) {
    const child = await t.create(template)
    equal(await child.files.read('a'), 'kept')
    check((await boot(child)) !== (await boot(sandbox)), 'a boot of its own')
    const programs = await child.commands.list()
    if (differs('memory images')) {
      equal(
        programs.map((p) => p.pid),
        [sleeper.pid],
        'the programs of the source',
      )
      equal(await child.commands.kill(sleeper.pid), true, 'and they can be ended')
    } else equal(programs.length, 0, 'fresh processes')
    await child.kill()
  }
  const named = await sandbox.createSnapshot({ name: 'prepared' })
  check(named.names.some((n) => n.includes('prepared')) && named.snapshotId.endsWith('/prepared:default'), named.snapshotId)
  const pages = sandbox.listSnapshots({ limit: 1 })
  const ids = []
  while (pages.hasNext) ids.push(...(await pages.nextItems()).map((s) => s.snapshotId))
  equal(ids, [named.snapshotId, snapshot.snapshotId], 'the newest first')
  const all = await Sandbox.listSnapshots().nextItems()
  equal(all.length, 2)
  equal(
    (await sandbox.commands.list()).map((p) => p.pid),
    [sleeper.pid],
    'in the source it goes on',
  )
  equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
  equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), false)
  equal(await Sandbox.deleteSnapshot(named.snapshotId), true)
  await fails(t.create(snapshot.snapshotId), SandboxError, /not found/)
})

test('fork', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.write('a', 'kept')
  const { status, body } = await request('POST', `/sandboxes/${sandbox.sandboxId}/fork`, { count: 3, timeout: 60 })
  equal(status, 201)
  equal(body.length, 3)
  for (const one of body) {
    const child = await Sandbox.connect(one.sandbox.sandboxID)
    equal(await child.files.read('a'), 'kept')
    await child.kill()
  }
  for (const count of [0, 101]) equal((await request('POST', `/sandboxes/${sandbox.sandboxId}/fork`, { count })).status, 400)
  equal((await request('POST', '/v2/sandboxes/inosuch0/fork', {})).status, 404)
  await sandbox.pause()
  const refused = await request('POST', `/v2/sandboxes/${sandbox.sandboxId}/fork`, {})
  equal([refused.status, /is paused and cannot be forked; resume it first/.test(refused.body.message)], [409, true])
})

test('the methods of the SDK, of a sandbox and by its id', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.write('a', 'kept')
  const children = [...(await sandbox.fork({ count: 2 })), ...(await Sandbox.fork(sandbox.sandboxId, { count: 1 }))]
  equal(children.length, 3)
  for (const child of children) {
    equal(await child.files.read('a'), 'kept')
    await child.kill()
  }
  const snapshot = await Sandbox.createSnapshot(sandbox.sandboxId)
  const child = await t.create(snapshot.snapshotId)
  equal(await child.files.read('a'), 'kept')
  await child.kill()
  equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
})

test('pause without memory', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.write('a', 'kept')
  await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  const before = await boot(sandbox)
  equal(await sandbox.pause({ keepMemory: false }), true)
  equal(await sandbox.pause({ keepMemory: false }), false)
  equal((await sandbox.getInfo()).state, 'paused')
  await fails(sandbox.commands.run('true'), SandboxNotFoundError)
  const again = await Sandbox.connect(sandbox.sandboxId)
  equal(again.envdAccessToken, sandbox.envdAccessToken, 'the token survives')
  equal(await sandbox.files.read('a'), 'kept', 'old handles go on')
  check((await boot(sandbox)) !== before, 'another boot')
  equal((await sandbox.commands.list()).length, 0)
  const second = await boot(sandbox)
  await sandbox.pause()
  equal((await request('POST', `/v2/sandboxes/${sandbox.sandboxId}/connect`, { timeout: 60, memory: false })).status, 201)
  equal(await sandbox.files.read('a'), 'kept', 'onResume: reboot')
  check((await boot(sandbox)) !== second, 'and another')
})

test('autoPauseMemory', async () => {
  const create = (body) => request('POST', '/v2/sandboxes', { templateID: 'base', timeout: 60, ...body })
  equal((await create({ autoPauseMemory: false })).status, 400)
  equal((await create({ autoPause: true, autoPauseMemory: false, autoResume: { enabled: true } })).status, 400)
  const made = await create({ autoPause: true, autoPauseMemory: false })
  equal(made.status, 201)
  equal((await request('DELETE', `/sandboxes/${made.body.sandboxID}`)).status, 204)
})

test('clone and reset of Novita', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.write('a', 'kept')
  const clone = await request('POST', `/sandboxes/${sandbox.sandboxId}/clone`, { count: 2, strict: true, timeout: 60 })
  equal([clone.status, clone.body.sandboxes.length], [200, 2])
  for (const one of clone.body.sandboxes) {
    const child = await Sandbox.connect(one.sandboxID)
    equal(await child.files.read('a'), 'kept')
    await child.kill()
  }
  equal(await Sandbox.deleteSnapshot(clone.body.snapshotTemplateId), true)
  const before = await boot(sandbox)
  equal((await request('POST', `/sandboxes/${sandbox.sandboxId}/reset`, { resume: true, timeout: 60 })).status, 200)
  equal(await sandbox.files.exists('a'), false)
  check((await boot(sandbox)) !== before, 'another boot')
})

await run()

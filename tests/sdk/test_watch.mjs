// Watching directories.
// server: pool_size=2
import { check, e2b, equal, fails, run, sleep, test, until } from './harness.mjs'

const { FileNotFoundError, FilesystemEventType: Type, InvalidArgumentError, TimeoutError } = e2b

// A watch with everything that it told.
async function watch(sandbox, path, opts = {}) {
  const seen = { events: [], exits: [] }
  const onExit = (e) => void seen.exits.push(e)
  seen.handle = await sandbox.files.watchDir(path, (event) => void seen.events.push(event), {
    onExit,
    timeoutMs: 0,
    ...opts,
  })
  seen.has = (name, type) => seen.events.some((e) => e.name === name && e.type === type)
  seen.comes = (name, type) =>
    until(() => seen.has(name, type), `${type} of ${name} among ${JSON.stringify(seen.events)}`, 6)
  return seen
}

test('created, written, changed, renamed, removed', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.makeDir('d')
  const seen = await watch(sandbox, 'd')
  await sandbox.files.write('d/f', 'x')
  await seen.comes('f', Type.CREATE)
  await seen.comes('f', Type.WRITE)
  await sandbox.commands.run('echo more >> d/g')
  await seen.comes('g', Type.CREATE)
  await seen.comes('g', Type.WRITE)
  await sandbox.commands.run('chmod 600 d/g')
  await seen.comes('g', Type.CHMOD)
  await sandbox.files.rename('d/g', 'd/h')
  await seen.comes('g', Type.RENAME)
  await seen.comes('h', Type.CREATE)
  await sandbox.files.remove('d/h')
  await seen.comes('h', Type.REMOVE)
  await sandbox.files.makeDir('d/sub')
  await seen.comes('sub', Type.CREATE)
  check(
    seen.events.every((e) => e.entry === undefined),
    'entries were not asked for',
  )
  await seen.handle.stop()
})

test('what happens below is told only if asked for, also in new directories', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.makeDir('d/old')
  const flat = await watch(sandbox, 'd')
  const deep = await watch(sandbox, 'd', { recursive: true })
  await sandbox.files.write('d/old/f', 'x')
  await deep.comes('old/f', Type.CREATE)
  await deep.comes('old/f', Type.WRITE)
  await sandbox.files.makeDir('d/new')
  await deep.comes('new', Type.CREATE)
  await sleep(200) // the watcher adds the new directory; nothing shows it
  await sandbox.files.write('d/new/g', 'x')
  await deep.comes('new/g', Type.WRITE)
  await sandbox.files.write('d/last', '')
  await flat.comes('last', Type.CREATE)
  equal(
    [...new Set(flat.events.map((e) => e.name))].filter((n) => n.includes('/')),
    [],
  )
  await Promise.all([flat.handle.stop(), deep.handle.stop()])
})

test('entries come along when asked for', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.makeDir('d')
  const seen = await watch(sandbox, 'd', { includeEntry: true })
  await sandbox.files.write('d/f', '12345')
  await seen.comes('f', Type.WRITE)
  const entry = seen.events.findLast((e) => e.type === Type.WRITE).entry
  equal(
    [entry.name, entry.path, entry.type, entry.size, entry.owner, entry.permissions],
    ['f', '/home/user/d/f', 'file', 5, 'user', '-rw-r--r--'],
  )
  await sandbox.files.remove('d/f')
  await seen.comes('f', Type.REMOVE)
  equal(seen.events.find((e) => e.type === Type.REMOVE).entry, undefined)
  await seen.handle.stop()
})

test('what cannot be watched', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.write('f', '')
  await fails(watch(sandbox, 'none'), FileNotFoundError)
  await fails(watch(sandbox, 'f'), InvalidArgumentError)
  await fails(watch(sandbox, '.', { user: 'root123' }), e2b.AuthenticationError)
})

test('stop ends it; time ends it with an error', async (t) => {
  const sandbox = await t.create()
  const stopped = await watch(sandbox, '.')
  await stopped.handle.stop()
  await until(() => stopped.exits.length === 1, 'the exit')
  await sandbox.files.write('after', '')
  await sleep(100) // no event may come
  equal(stopped.events, [], 'nothing after the stop')
  const timed = await watch(sandbox, '.', { timeoutMs: 500 })
  await until(() => timed.exits.length === 1, 'the exit', 4)
  equal(timed.exits[0].constructor.name, TimeoutError.name)
})

test('many events, none lost', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.makeDir('d')
  const seen = await watch(sandbox, 'd')
  await sandbox.commands.run('for i in $(seq 500); do : > d/$i; done')
  await until(() => seen.events.filter((e) => e.type === Type.CREATE).length >= 500, 'five hundred', 8)
  equal(new Set(seen.events.map((e) => e.name)).size, 500)
  await seen.handle.stop()
})

test('a relative path is below the home of the user that watches', async (t) => {
  const sandbox = await t.create()
  const seen = await watch(sandbox, '.', { user: 'root' })
  await sandbox.files.write('/root/x', '')
  await seen.comes('x', Type.CREATE)
  await seen.handle.stop()
})

await run()

// Volumes by the SDK's Volume: made, listed, connected to, destroyed; their content; mounted into sandboxes.
// server: pool_size=1
import { check, differs, e2b, equal, fails, level, matches, run, test } from './harness.mjs'

const { Sandbox, Volume, VolumeError, VolumeFileType, VolumeNotFoundError, VolumePathNotFoundError } = e2b

test('create, list, connect, getInfo, destroy', async () => {
  const made = await Volume.create('first')
  matches(made.volumeId, /^[0-9a-f-]{36}$/, 'volumeId')
  equal(made.name, 'first')
  equal(await Volume.list(), [{ volumeId: made.volumeId, name: 'first' }])
  const info = await Volume.getInfo(made.volumeId)
  equal([info.volumeId, info.name], [made.volumeId, 'first'])
  check(info.token.length > 20, 'token')
  const again = await Volume.connect(made.volumeId)
  await again.writeFile('/by-connect', 'x')
  equal(await made.readFile('/by-connect'), 'x')
  await fails(Volume.create('first'), VolumeError, /already exists/)
  await fails(Volume.create('a b'), VolumeError, /name/)
  equal(await Volume.destroy(made.volumeId), true)
  equal(await Volume.destroy(made.volumeId), false)
  await fails(Volume.getInfo(made.volumeId), VolumeNotFoundError)
  await fails(Volume.connect('no-such-volume'), VolumeNotFoundError)
})

test('directories', async () => {
  const volume = await Volume.create('dirs')
  const made = await volume.makeDir('/d', { mode: 0o700, uid: 0, gid: 0 })
  equal([made.name, made.type, made.path, made.mode, made.uid], ['d', VolumeFileType.DIRECTORY, '/d', 0o700, 0])
  check(made.mtime instanceof Date && Math.abs(made.mtime - Date.now()) < 60000, 'mtime')
  await fails(volume.makeDir('/d'), VolumeError)
  await fails(volume.makeDir('/x/y'), VolumePathNotFoundError)
  await volume.makeDir('/x/y', { force: true })
  await volume.writeFile('/x/y/f', 'hello')
  equal((await volume.list('/')).map((e) => e.path).sort(), ['/d', '/x'])
  equal((await volume.list('/x', { depth: 5 })).map((e) => e.path), ['/x/y', '/x/y/f'])
  await fails(volume.list('/none'), VolumePathNotFoundError)
  await volume.remove('/x')
  equal(await volume.exists('/x'), false)
  equal(await volume.exists('/d'), true)
  await fails(volume.remove('/x'), VolumePathNotFoundError)
  await Volume.destroy(volume.volumeId)
})

test('files in every format', async () => {
  const volume = await Volume.create('files')
  const bytes = new Uint8Array(300000).map((_, i) => i % 251)
  const entry = await volume.writeFile('/f', bytes.buffer, { mode: 0o600 })
  equal([entry.size, entry.mode, entry.type], [bytes.length, 0o600, VolumeFileType.FILE])
  const got = await volume.readFile('/f', { format: 'bytes' })
  equal(Buffer.compare(Buffer.from(got), Buffer.from(bytes)), 0)
  equal((await (await volume.readFile('/f', { format: 'blob' })).arrayBuffer()).byteLength, bytes.length)
  let n = 0
  for await (const part of await volume.readFile('/f', { format: 'stream' })) n += part.length
  equal(n, bytes.length)
  await fails(volume.writeFile('/f', 'x'), VolumeError)
  await volume.writeFile('/f', new Blob(['text']), { force: true })
  equal(await volume.readFile('/f'), 'text')
  const stream = new ReadableStream({
    start(c) {
      for (let i = 0; i < 10; i++) c.enqueue(new TextEncoder().encode('0123456789'))
      c.close()
    },
  })
  equal((await volume.writeFile('/streamed', stream)).size, 100)
  await volume.writeFile('/empty', '')
  equal(await volume.readFile('/empty'), '')
  const changed = await volume.updateMetadata('/f', { mode: 0o640, uid: 0, gid: 5 })
  equal([changed.mode, changed.uid, changed.gid], [0o640, 0, 5])
  equal((await volume.getInfo('/f')).mode, 0o640)
  await fails(volume.readFile('/none'), VolumePathNotFoundError)
  await fails(volume.getInfo('/none'), VolumePathNotFoundError)
  await Volume.destroy(volume.volumeId)
})

test('in sandboxes, live', async (t) => {
  const volume = await Volume.create('shared')
  await volume.writeFile('/seed', 'from outside')
  if (differs('writable directories of the machine, volumes') || differs('mounts')) {
    await fails(t.create({ volumeMounts: { '/mnt/v': volume } }), e2b.SandboxError, new RegExp(`level ${level}`))
    equal(await volume.readFile('/seed'), 'from outside')
    equal(await Volume.destroy(volume.volumeId), true)
    return
  }
  const a = await t.create({ volumeMounts: { '/mnt/v': volume } })
  const b = await t.create({ volumeMounts: { '/data': 'shared' } })
  equal((await a.getInfo()).volumeMounts, [{ name: 'shared', path: '/mnt/v' }])
  equal(await a.files.read('/mnt/v/seed'), 'from outside')
  await a.files.write('/mnt/v/by-a', 'a')
  equal((await b.commands.run('cat /data/by-a')).stdout, 'a')
  await b.commands.run('echo b > /data/by-b')
  equal(await volume.readFile('/by-b'), 'b\n')
  await fails(Volume.destroy(volume.volumeId), VolumeError, /409/)
  await a.kill()
  await b.kill()
  equal(await Volume.destroy(volume.volumeId), true)
  await fails(Sandbox.create({ volumeMounts: { '/v': 'no-such' } }), e2b.SandboxError, /volume 'no-such' not found/)
})

await run()

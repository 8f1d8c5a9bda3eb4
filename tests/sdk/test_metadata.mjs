// Metadata of files: extended attributes user.e2b.*
// server: pool_size=2
import { differs, e2b, equal, fails, matches, run, test } from './harness.mjs'

const { CommandExitError, InvalidArgumentError } = e2b

// Whether files can have metadata: tmpfs has attributes of users since Linux 6.6, and gVisor says that it is 4.4.
async function kept(sandbox) {
  if (!differs('extended attributes')) return true
  const [major, minor] = (await sandbox.commands.run('uname -r')).stdout.split('.').map(Number)
  return major > 6 || (major === 6 && minor >= 6)
}

// Where they cannot, a write with metadata is refused, and nothing is written.
async function refused(sandbox, path, ...args) {
  await fails(sandbox.files.write(path, ...args), InvalidArgumentError, /this kernel cannot keep file metadata/)
  for (const one of Array.isArray(path) ? path.map((f) => f.path) : [path])
    equal(await sandbox.files.exists(one), false, one)
}

test('given with a write, seen everywhere', async (t) => {
  const sandbox = await t.create()
  const { files } = sandbox
  const metadata = { author: 'ada', 'content-kind': 'text; x=1' }
  if (!(await kept(sandbox))) {
    await refused(sandbox, 'd/f', 'x', { metadata })
    await files.write('d/f', 'x')
    equal((await files.getInfo('d/f')).metadata, undefined)
    return
  }
  const written = await files.write('d/f', 'x', { metadata })
  equal(written, { name: 'f', type: 'file', path: '/home/user/d/f', metadata })
  equal((await files.getInfo('d/f')).metadata, metadata)
  equal((await files.list('d'))[0].metadata, metadata)
  const inside = await sandbox.commands.run(
    `python3 -c "import os; print(sorted((n, os.getxattr('d/f', n).decode()) for n in os.listxattr('d/f')))"`,
  )
  equal(inside.stdout, "[('user.e2b.author', 'ada'), ('user.e2b.content-kind', 'text; x=1')]\n")
})

test('a write replaces all of it; one without clears it', async (t) => {
  const sandbox = await t.create()
  const { files } = sandbox
  if (!(await kept(sandbox))) {
    await files.write('f', 'first')
    await fails(files.write('f', 'x', { metadata: { a: '1' } }), InvalidArgumentError, /cannot keep file metadata/)
    equal(await files.read('f'), 'first', 'the file is as it was')
    return
  }
  await files.write('f', 'x', { metadata: { a: '1', b: '2' } })
  await files.write('f', 'y', { metadata: { c: '3' } })
  equal((await files.getInfo('f')).metadata, { c: '3' })
  equal(await files.write('f', 'z'), { name: 'f', type: 'file', path: '/home/user/f' })
  equal((await files.getInfo('f')).metadata, undefined)
})

test('keys are lower case, all files of a call get it, octet streams too', async (t) => {
  const sandbox = await t.create()
  const { files } = sandbox
  const both = [
    { path: 'a', data: '' },
    { path: 'b', data: '' },
  ]
  if (!(await kept(sandbox))) {
    await refused(sandbox, both, { metadata: { MixedCase: 'Value' } })
    await refused(sandbox, 'c', 'x', { useOctetStream: true, metadata: { k: 'v' } })
    await refused(sandbox, 'd', 'x', { gzip: true, metadata: { k: 'v' } })
    return
  }
  await files.write(both, { metadata: { MixedCase: 'Value' } })
  equal((await files.getInfo('a')).metadata, { mixedcase: 'Value' })
  equal((await files.getInfo('b')).metadata, { mixedcase: 'Value' })
  equal((await files.write('c', 'x', { useOctetStream: true, metadata: { k: 'v' } })).metadata, { k: 'v' })
  equal((await files.write('d', 'x', { gzip: true, metadata: { k: 'v' } })).metadata, { k: 'v' })
})

test('it survives a rename, and what programs set is seen', async (t) => {
  const sandbox = await t.create()
  if (!(await kept(sandbox))) {
    const set = `python3 -c "import os; open('f', 'w'); os.setxattr('f', 'user.e2b.more', b'by hand')"`
    matches((await fails(sandbox.commands.run(set), CommandExitError)).stderr, /Operation not supported/)
    return
  }
  await sandbox.files.write('f', 'x', { metadata: { k: 'v' } })
  equal((await sandbox.files.rename('f', 'e/g')).metadata, { k: 'v' })
  await sandbox.commands.run(
    `python3 -c "import os; os.setxattr('e/g', 'user.e2b.more', b'by hand'); os.setxattr('e/g', 'user.other', b'hidden')"`,
  )
  equal((await sandbox.files.getInfo('e/g')).metadata, { k: 'v', more: 'by hand' })
})

test('too much or malformed metadata is refused, and nothing is written', async (t) => {
  const { files } = await t.create()
  await fails(files.write('f', 'x', { metadata: { 'a b': 'v' } }), InvalidArgumentError)
  await fails(files.write('f', 'x', { metadata: { a: 'ü' } }), InvalidArgumentError)
  await fails(files.write('f', 'x', { metadata: { a: 'v'.repeat(5000) } }), InvalidArgumentError)
  await fails(files.write('f', 'x', { metadata: { ['k'.repeat(250)]: 'v' } }), InvalidArgumentError)
  equal(await files.exists('f'), false)
})

await run()

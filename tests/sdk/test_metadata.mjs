// Metadata of files: extended attributes user.e2b.*
// server: pool_size=2
import { e2b, equal, fails, run, test } from './harness.mjs'

const { InvalidArgumentError } = e2b

test('given with a write, seen everywhere', async (t) => {
  const sandbox = await t.create()
  const { files } = sandbox
  const metadata = { author: 'ada', 'content-kind': 'text; x=1' }
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
  const { files } = await t.create()
  await files.write('f', 'x', { metadata: { a: '1', b: '2' } })
  await files.write('f', 'y', { metadata: { c: '3' } })
  equal((await files.getInfo('f')).metadata, { c: '3' })
  equal(await files.write('f', 'z'), { name: 'f', type: 'file', path: '/home/user/f' })
  equal((await files.getInfo('f')).metadata, undefined)
})

test('keys are lower case, all files of a call get it, octet streams too', async (t) => {
  const { files } = await t.create()
  await files.write(
    [
      { path: 'a', data: '' },
      { path: 'b', data: '' },
    ],
    { metadata: { MixedCase: 'Value' } },
  )
  equal((await files.getInfo('a')).metadata, { mixedcase: 'Value' })
  equal((await files.getInfo('b')).metadata, { mixedcase: 'Value' })
  equal((await files.write('c', 'x', { useOctetStream: true, metadata: { k: 'v' } })).metadata, { k: 'v' })
  equal((await files.write('d', 'x', { gzip: true, metadata: { k: 'v' } })).metadata, { k: 'v' })
})

test('it survives a rename, and what programs set is seen', async (t) => {
  const sandbox = await t.create()
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

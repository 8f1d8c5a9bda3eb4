// Files: written, read, listed, moved, removed; names, owners, kinds; bad input.
// server: pool_size=4 disk_default=64M
import { gzipSync } from 'node:zlib'
import { randomBytes } from 'node:crypto'
import { check, e2b, equal, fails, near, run, test } from './harness.mjs'

const { AuthenticationError, FileNotFoundError, FileType, InvalidArgumentError, NotEnoughSpaceError } = e2b

const slow = (parts) => new ReadableStream({ pull: (c) => (parts.length ? c.enqueue(parts.shift()) : c.close()) })

test('written and read in every form', async (t) => {
  const { files } = await t.create()
  const text = 'zwei Zeilen\n☃ und Ende'
  equal(await files.write('a.txt', text), { name: 'a.txt', type: 'file', path: '/home/user/a.txt' })
  equal(await files.read('a.txt'), text)
  equal(Buffer.from(await files.read('a.txt', { format: 'bytes' })).toString(), text)
  equal(await (await files.read('a.txt', { format: 'blob' })).text(), text)
  equal(await new Response(await files.read('a.txt', { format: 'stream' })).text(), text)
  equal(await files.read('a.txt', { gzip: true }), text)
  for (const data of [
    new Blob(['blob']),
    new TextEncoder().encode('array').buffer,
    slow([Buffer.from('str'), Buffer.from('eam')]),
  ]) {
    await files.write('b', data)
    equal(await files.read('b'), data instanceof Blob ? 'blob' : data instanceof ArrayBuffer ? 'array' : 'stream')
  }
})

test('all bytes, and none', async (t) => {
  const { files } = await t.create()
  const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
  await files.write('all', all.buffer.slice(all.byteOffset, all.byteOffset + 256))
  check(Buffer.from(await files.read('all', { format: 'bytes' })).equals(all), 'a byte is changed')
  await files.write('none', '')
  equal(await files.read('none'), '')
  equal((await files.read('none', { format: 'bytes' })).length, 0)
  equal((await files.read('none', { format: 'blob' })).size, 0)
  equal(await new Response(await files.read('none', { format: 'stream' })).text(), '')
  equal((await files.getInfo('none')).size, 0)
})

test('octet-stream, gzip, and streams of a few megabytes', async (t) => {
  const { files } = await t.create()
  const data = randomBytes(3_000_001)
  const same = async (path) =>
    check(Buffer.from(await files.read(path, { format: 'bytes' })).equals(data), `${path} is changed`)
  await files.write('octets', new Blob([data]), { useOctetStream: true })
  await same('octets')
  await files.write('gzip', new Blob([data]), { gzip: true })
  await same('gzip')
  await files.write('stream', slow([data.subarray(0, 7), data.subarray(7, 2_000_000), data.subarray(2_000_000)]))
  await same('stream')
  await files.write('zipped stream', slow([data.subarray(0, 1_000_000), data.subarray(1_000_000)]), { gzip: true })
  await same('zipped stream')
  await files.write('a.gz', new Blob([gzipSync(data)]))
  check(
    Buffer.from(await files.read('a.gz', { format: 'bytes' })).equals(gzipSync(data)),
    'a file that is gzip stays so',
  )
})

test('paths: relative, ~, absolute, parents made on the way', async (t) => {
  const sandbox = await t.create()
  const { files } = sandbox
  const to = async (path, user) => (await files.write(path, 'x', user && { user })).path
  equal(await to('a'), '/home/user/a')
  equal(await to('~/b'), '/home/user/b')
  equal(await to('/tmp/c'), '/tmp/c')
  equal(await to('x/y/z/d'), '/home/user/x/y/z/d')
  equal(await to('e', 'root'), '/root/e')
  const stat = async (path) => (await sandbox.commands.run(`stat -c '%U:%G %a' ${path}`, { user: 'root' })).stdout.trim()
  equal(await stat('/home/user/x/y'), 'user:user 755')
  equal(await stat('/home/user/x/y/z/d'), 'user:user 644')
  equal(await stat('/root/e'), 'root:root 644')
  equal(await to('/opt/new/f'), '/opt/new/f', 'anywhere: files are written as E2B does, for the user')
  equal(await stat('/opt/new/f'), 'user:user 644')
})

test('writing again replaces, keeps the mode, and takes the file over', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.write('f', 'a long first text')
  await sandbox.commands.run('cd /home/user; chmod 755 f; chown root:root f', { user: 'root' })
  await sandbox.files.write('f', 'short')
  equal(await sandbox.files.read('f'), 'short')
  equal((await sandbox.commands.run("stat -c '%U:%G %a' f")).stdout, 'user:user 755\n')
})

test('several at once', async (t) => {
  const { files } = await t.create()
  const list = [
    { path: 'one', data: '1' },
    { path: 'dir/two', data: new Blob(['22']) },
    { path: '/tmp/three', data: '' },
  ]
  equal(await files.write(list), [
    { name: 'one', type: 'file', path: '/home/user/one' },
    { name: 'two', type: 'file', path: '/home/user/dir/two' },
    { name: 'three', type: 'file', path: '/tmp/three' },
  ])
  equal(await Promise.all(list.map(({ path }) => files.read(path))), ['1', '22', ''])
  equal(await files.writeFiles(list.slice(0, 1)), [{ name: 'one', type: 'file', path: '/home/user/one' }])
  equal(await files.write([]), [])
  const many = Array.from({ length: 100 }, (_, i) => ({ path: `many/${i}`, data: `number ${i}` }))
  equal((await files.write(many)).length, 100)
  equal(await files.read('many/99'), 'number 99')
  await fails(
    files.write([
      { path: 'same', data: 'a' },
      { path: '/home/user/same', data: 'b' },
    ]),
    InvalidArgumentError,
  )
})

test('names with every odd character', async (t) => {
  const { files } = await t.create()
  const names = [
    'with space',
    'quote"s',
    "apo'strophe",
    'back\\slash',
    'per%cent%41',
    'a+b&c=d?e#f',
    'ümläut ☃',
    '.hidden',
    '-dash',
    'semi;colon',
    '..dots',
    'new\nline',
    '$HOME `x` *',
  ]
  await files.write(names.map((name) => ({ path: `odd/${name}`, data: name })))
  for (const name of names) {
    equal(await files.read(`odd/${name}`), name)
    const written = await files.write(`single/${name}`, name)
    equal([written.name, written.path], [name, `/home/user/single/${name}`])
    equal((await files.getInfo(`single/${name}`)).name, name)
  }
  const sorted = [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  equal(
    (await files.list('single')).map((e) => e.name),
    sorted,
  )
})

test('what cannot be read or written', async (t) => {
  const { files } = await t.create()
  await files.makeDir('dir')
  await files.write('file', 'x')
  await fails(files.read('none'), FileNotFoundError, /path '.*none' does not exist/)
  await fails(files.read('none', { format: 'stream' }), FileNotFoundError)
  await fails(files.read('dir'), InvalidArgumentError, /path '.*dir' is a directory/)
  await fails(files.write('dir', 'x'), InvalidArgumentError)
  await fails(files.write('dir', 'x', { useOctetStream: true }), InvalidArgumentError)
  await fails(files.write('file/below', 'x'), InvalidArgumentError)
  await fails(files.read('file', { user: 'root123' }), AuthenticationError, /root123/)
  await fails(files.write('file', 'x', { user: 'root123' }), AuthenticationError, /root123/)
  await fails(files.list('.', { user: 'root123' }), AuthenticationError, /root123/)
  equal(await files.read('file'), 'x', 'nothing of it changed the file')
})

test('a full disk', async (t) => {
  const { files } = await t.create()
  await files.write('kept', 'x')
  await fails(
    files.write('big', new Blob([Buffer.alloc(80 << 20)]), { useOctetStream: true }),
    NotEnoughSpaceError,
    /not enough disk space/,
  )
  await fails(files.write('big', new Blob([Buffer.alloc(80 << 20)])), NotEnoughSpaceError, /not enough disk space/)
  equal(await files.exists('big'), false, 'nothing half written stays')
  await files.write('small', 'there is room again')
  equal(await files.read('kept'), 'x')
})

test('files of the kernel are read to their end', async (t) => {
  const { files } = await t.create()
  check((await files.read('/proc/version')).startsWith('Linux version'), '/proc/version')
  check((await files.read('/proc/self/status')).includes('Pid:'), '/proc/self/status')
})

test('getInfo: file, directory, links', async (t) => {
  const sandbox = await t.create()
  const { files } = sandbox
  await files.write('dir/file', '12345')
  const file = await files.getInfo('dir/file')
  near(file.modifiedTime.getTime(), Date.now(), 5000, 'modifiedTime')
  const { modifiedTime, ...rest } = file
  equal(rest, {
    name: 'file',
    type: FileType.FILE,
    path: '/home/user/dir/file',
    size: 5,
    mode: 0o644,
    permissions: '-rw-r--r--',
    owner: 'user',
    group: 'user',
  })
  const dir = await files.getInfo('dir')
  equal(
    [dir.name, dir.type, dir.path, dir.mode, dir.permissions, dir.owner, dir.group],
    ['dir', FileType.DIR, '/home/user/dir', 0o755, 'drwxr-xr-x', 'user', 'user'],
  )
  await sandbox.commands.run(
    'ln -s dir/file link; ln -s dir dlink; ln -s nowhere dangling; ln -s link chain; chmod 751 dir/file',
  )
  const link = await files.getInfo('link')
  equal(
    [link.name, link.path, link.type, link.symlinkTarget, link.permissions, link.size],
    ['link', '/home/user/link', FileType.FILE, '/home/user/dir/file', 'Lrwxrwxrwx', 8],
  )
  equal(link.mode, 0o751, 'the mode of the target')
  equal((await files.getInfo('chain')).symlinkTarget, '/home/user/dir/file', 'fully resolved')
  const dlink = await files.getInfo('dlink')
  equal([dlink.type, dlink.symlinkTarget], [FileType.DIR, '/home/user/dir'])
  const dangling = await files.getInfo('dangling')
  equal([dangling.name, dangling.type], ['dangling', undefined])
  await fails(files.getInfo('none'), FileNotFoundError, /file not found/)
  const root = await files.getInfo('/')
  equal([root.path, root.type], ['/', FileType.DIR])
  equal((await files.getInfo('/root')).owner, 'root')
  equal((await files.getInfo('.', { user: 'root' })).path, '/root')
})

test('exists', async (t) => {
  const { files } = await t.create()
  await files.write('d/f', '')
  equal(
    [await files.exists('d/f'), await files.exists('d'), await files.exists('d/g'), await files.exists('/none/at/all')],
    [true, true, false, false],
  )
})

test('makeDir: true, false, and over a file', async (t) => {
  const { files } = await t.create()
  equal(await files.makeDir('a/b/c'), true)
  equal(await files.makeDir('a/b/c'), false)
  equal(await files.makeDir('a'), false)
  const made = await files.getInfo('a/b')
  equal([made.owner, made.group, made.mode], ['user', 'user', 0o755])
  await files.write('file', '')
  await fails(files.makeDir('file'), InvalidArgumentError)
  await fails(files.makeDir('file/below'), InvalidArgumentError)
  equal(await files.makeDir('/root/r', { user: 'root' }), true)
  equal((await files.getInfo('/root/r')).owner, 'root')
})

test('list: depth, order, links, and what is no directory', async (t) => {
  const sandbox = await t.create()
  const { files } = sandbox
  await files.write(['t/b/2', 't/b/1', 't/a/x/y/z', 't/c', 't/B'].map((path) => ({ path, data: path })))
  await sandbox.commands.run('ln -s b t/link; ln -s nowhere t/dangling; mkfifo t/pipe')
  const names = async (opts) => (await files.list('t', opts)).map((e) => e.path.slice('/home/user/t/'.length))
  equal(await names(), ['B', 'a', 'b', 'c', 'link'])
  equal(await names({ depth: 2 }), ['B', 'a', 'a/x', 'b', 'b/1', 'b/2', 'c', 'link'])
  equal(await names({ depth: 9 }), ['B', 'a', 'a/x', 'a/x/y', 'a/x/y/z', 'b', 'b/1', 'b/2', 'c', 'link'])
  const [first] = await files.list('t')
  equal([first.name, first.type, first.size, first.owner, first.permissions], ['B', 'file', 3, 'user', '-rw-r--r--'])
  equal((await files.list('/home/user/t/')).length, 5)
  equal(await files.list('.', { user: 'root' }), await files.list('/root'))
  await fails(files.list('t/c'), InvalidArgumentError)
  await fails(files.list('none'), FileNotFoundError)
  await fails(files.list('t', { depth: 0 }), InvalidArgumentError)
  await files.makeDir('empty')
  equal(await files.list('empty'), [])
})

test('a directory of three thousand', async (t) => {
  const sandbox = await t.create()
  await sandbox.commands.run('mkdir many; cd many; seq -f "f%05g" 3000 | xargs touch')
  const list = await sandbox.files.list('many')
  equal(list.length, 3000)
  equal([list[0].name, list[2999].name], ['f00001', 'f03000'])
})

test('rename: file, directory, into the new, over the old', async (t) => {
  const { files } = await t.create()
  await files.write('a', 'A')
  const moved = await files.rename('a', 'new/place/b')
  equal([moved.name, moved.path, moved.type, moved.size], ['b', '/home/user/new/place/b', 'file', 1])
  equal([await files.exists('a'), await files.read('new/place/b')], [false, 'A'])
  await files.write('c', 'C')
  await files.rename('c', 'new/place/b')
  equal(await files.read('new/place/b'), 'C')
  const dir = await files.rename('new', 'newer')
  equal([dir.type, dir.path], ['dir', '/home/user/newer'])
  equal(await files.read('newer/place/b'), 'C')
  await fails(files.rename('none', 'x'), FileNotFoundError)
  equal(await files.exists('x'), false)
})

test('remove: file, full directory, nothing', async (t) => {
  const { files } = await t.create()
  await files.write('d/e/f', '')
  await files.remove('d/e/f')
  equal([await files.exists('d/e/f'), await files.exists('d/e')], [false, true])
  await files.write('d/e/g', '')
  await files.remove('d')
  equal(await files.exists('d'), false)
  await files.remove('d')
})

test('many at the same time', async (t) => {
  const { files } = await t.create()
  await Promise.all(Array.from({ length: 40 }, (_, i) => files.write(`p/${i}`, `text ${i}`)))
  const all = await Promise.all(Array.from({ length: 40 }, (_, i) => files.read(`p/${i}`)))
  equal(
    all,
    Array.from({ length: 40 }, (_, i) => `text ${i}`),
  )
  equal((await files.list('p')).length, 40)
})

await run()

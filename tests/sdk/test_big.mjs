// Big things: a file of 200 MiB up and down, a million lines.
// server: pool_size=1 disk_default=1G memory_default=2G
import { createHash, randomBytes } from 'node:crypto'
import { check, equal, run, test } from './harness.mjs'

const SIZE = 200 << 20
const block = randomBytes(1 << 20)
const sum = createHash('sha256')
for (let i = 0; i < SIZE >> 20; i++) sum.update(block)
const want = sum.digest('hex')

// The file piece by piece, as it would come from a disk.
const pieces = () => {
  let left = SIZE >> 20
  return new ReadableStream({ pull: (c) => (left-- > 0 ? c.enqueue(block) : c.close()) })
}

async function hash(stream) {
  const got = createHash('sha256')
  let bytes = 0
  for await (const part of stream) {
    got.update(part)
    bytes += part.length
  }
  return [bytes, got.digest('hex')]
}

test(
  '200 MiB up as a stream, looked at inside, and down as a stream',
  async (t) => {
    const sandbox = await t.create()
    const began = Date.now()
    equal((await sandbox.files.write('big', pieces())).path, '/home/user/big')
    const up = Date.now() - began
    equal((await sandbox.commands.run('sha256sum big; stat -c %s big')).stdout, `${want}  big\n${SIZE}\n`)
    const then = Date.now()
    equal(await hash(await sandbox.files.read('big', { format: 'stream' })), [SIZE, want])
    console.log(`# up ${up} ms, down ${Date.now() - then} ms`)
  },
  { seconds: 60 },
)

test(
  '200 MiB up as a form, and down as bytes',
  async (t) => {
    const sandbox = await t.create()
    await sandbox.files.write('big', new Blob(Array(SIZE >> 20).fill(block)))
    const bytes = await sandbox.files.read('big', { format: 'bytes' })
    equal([bytes.length, createHash('sha256').update(bytes).digest('hex')], [SIZE, want])
  },
  { seconds: 60 },
)

test(
  'a million small lines',
  async (t) => {
    const sandbox = await t.create()
    let next = 1
    let rest = ''
    let pieces = 0
    const began = Date.now()
    await sandbox.commands.run('seq 1 1000000', {
      onStdout: (text) => {
        pieces += 1
        const lines = (rest + text).split('\n')
        rest = lines.pop()
        for (const line of lines) {
          check(line === String(next), `line ${next} is ${line}`)
          next += 1
        }
      },
    })
    equal([next, rest], [1_000_001, ''])
    console.log(`# ${Date.now() - began} ms, ${pieces} pieces`)
  },
  { seconds: 60 },
)

test(
  'a million writes of one line each',
  async (t) => {
    const sandbox = await t.create()
    const program = 'import os\nfor i in range(1000000): os.write(1, b"a line\\n")'
    const done = await sandbox.commands.run(`/usr/bin/python3 -c '${program}'`)
    equal(done.stdout.length, 7_000_000)
    check(done.stdout === 'a line\n'.repeat(1_000_000), 'a line is changed')
  },
  { seconds: 60 },
)

await run()

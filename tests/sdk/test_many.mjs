// Many sandboxes of one process, all at once: fifty; fewer where each is a kernel of its own, for which two processors need as long.
// server: pool_size=16 pool_max=64
import { check, collect, e2b, equal, level, run, test, within } from './harness.mjs'

const { Sandbox } = e2b
const N = { container: 50, gvisor: 16, microvm: 10 }[level]
const every = (make) => Promise.all(Array.from({ length: N }, (_, i) => make(i)))

test(
  `${N} sandboxes at once: created, used, listed, killed`,
  async () => {
    const all = await every((i) => Sandbox.create({ metadata: { n: String(i), crowd: 'yes' }, timeoutMs: 120_000 }))
    try {
      equal(new Set(all.map((s) => s.sandboxId)).size, N)
      equal(new Set(all.map((s) => s.envdAccessToken)).size, N, 'a token each')
      const said = await every((i) => all[i].commands.run(`echo ${i} > n; cat n; echo $E2B_SANDBOX_ID`))
      equal(
        said.map((r) => r.stdout),
        all.map((s, i) => `${i}\n${s.sandboxId}\n`),
      )
      await every((i) => all[i].files.write('mine', `file of ${i}`))
      equal(
        await every((i) => all[i].files.read('mine')),
        Array.from({ length: N }, (_, i) => `file of ${i}`),
      )
      const listed = await collect(Sandbox.list({ limit: 4, query: { metadata: { crowd: 'yes' } } }))
      equal(listed.map((s) => s.sandboxId).sort(), all.map((s) => s.sandboxId).sort())
    } finally {
      equal(await every((i) => all[i].kill()), Array(N).fill(true))
    }
    equal(await every((i) => all[i].isRunning()), Array(N).fill(false))
  },
  { seconds: 60 },
)

test(
  `two streams of each of ${N}, open at the same time`,
  async () => {
    const all = await every(() => Sandbox.create())
    try {
      const handles = await every((i) =>
        all[i].commands.run('read x; echo "$x"; read y; echo "$y"', { background: true, stdin: true }),
      )
      const watches = []
      await every(async (i) => {
        await all[i].files.watchDir('.', (e) => void watches.push([i, e.name]), { timeoutMs: 0 })
      })
      await every((i) => handles[i].sendStdin(`one ${i}\n`))
      await every((i) => all[i].files.write(`f${i}`, ''))
      await every((i) => handles[i].sendStdin('two\n'))
      const done = await every((i) => handles[i].wait())
      equal(
        done.map((r) => r.stdout),
        Array.from({ length: N }, (_, i) => `one ${i}\ntwo\n`),
      )
      await within(
        (async () => {
          while (new Set(watches.map(([i]) => i)).size < N) await new Promise((r) => setTimeout(r, 20))
        })(),
        10,
        'an event of each',
      )
      check(
        watches.every(([i, name]) => name === `f${i}`),
        'an event of another sandbox',
      )
    } finally {
      await every((i) => all[i].kill())
    }
  },
  { seconds: 60 },
)

test(
  'a hundred commands at once over ten sandboxes',
  async (t) => {
    const ten = await Promise.all(Array.from({ length: 10 }, () => t.create()))
    const all = await Promise.all(
      Array.from({ length: 100 }, (_, i) => ten[i % 10].commands.run(`sleep 0.1; echo ${i}`)),
    )
    equal(
      all.map((r) => r.stdout),
      Array.from({ length: 100 }, (_, i) => `${i}\n`),
    )
  },
  { seconds: 40 },
)

await run()

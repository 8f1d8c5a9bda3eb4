// Listing: filters, order, pages.
// server: pool_size=8
import { check, collect, e2b, equal, fails, level, near, operator, run, sleep, test } from './harness.mjs'

const { Sandbox, SandboxError } = e2b

const ids = (list) => list.map((s) => s.sandboxId)

// Five of one tenant of its own, so that the list is exactly they: the oldest first.
async function five(name) {
  const [, apiKey] = await operator('tenant', { name })
  const made = []
  for (let i = 0; i < 5; i++) {
    made.push(await Sandbox.create({ apiKey, timeoutMs: 60_000, metadata: { n: String(i), odd: String(i % 2) } }))
    await sleep(5) // sandboxes of one millisecond have any order
  }
  return [made, apiKey]
}

const end = (made) => Promise.all(made.map((s) => s.kill()))

test('all of them, newest first, with what is known of each', async () => {
  const [made, apiKey] = await five('all')
  const list = await Sandbox.list({ apiKey }).nextItems()
  equal(ids(list), ids(made).reverse())
  const one = list[0]
  equal([one.templateId, one.state, one.metadata, one.volumeMounts], ['base', 'running', { n: '4', odd: '0' }, []])
  near(one.endAt - one.startedAt, 60_000, 1500, 'its life')
  equal([one.memoryMB, Number.isInteger(one.cpuCount)], [level === 'microvm' ? 256 : 512, true])
  equal(one.envdVersion, (await made[4].getInfo()).envdVersion)
  await end(made)
  equal(await Sandbox.list({ apiKey }).nextItems(), [])
})

test('order, and pages in both orders', async () => {
  const [made, apiKey] = await five('pages')
  for (const [order, want] of [
    ['asc', ids(made)],
    ['desc', ids(made).reverse()],
  ]) {
    equal(ids(await Sandbox.list({ apiKey, order }).nextItems()), want, order)
    const pages = Sandbox.list({ apiKey, order, limit: 2 })
    const seen = []
    for (const size of [2, 2, 1]) {
      equal(pages.hasNext, true, `before a page of ${size}`)
      const page = await pages.nextItems()
      equal(page.length, size)
      seen.push(...ids(page))
    }
    equal(pages.hasNext, false)
    equal(seen, want, `pages ${order}`)
    await fails(pages.nextItems(), Error, /No more items/)
  }
  const exact = Sandbox.list({ apiKey, limit: 5 })
  equal((await exact.nextItems()).length, 5)
  equal(exact.hasNext, false, 'no page after the last')
  await end(made)
})

test('a page begins where the last ended, though others come and go', async () => {
  const [made, apiKey] = await five('moving')
  const pages = Sandbox.list({ apiKey, limit: 2 })
  const first = ids(await pages.nextItems())
  const newer = await Sandbox.create({ apiKey })
  await made[3].kill()
  const later = ids(await collect(pages))
  equal(
    [...first, ...later],
    [made[4], made[3], made[2], made[1], made[0]].map((s) => s.sandboxId),
  )
  await end([...made, newer])
})

test('metadata: all pairs must match, whatever characters they have', async () => {
  const [made, apiKey] = await five('metadata')
  const odd = await Sandbox.create({ apiKey, metadata: { 'a b': 'c&d=é%20+/?#', x: '' } })
  const by = async (metadata) => ids(await collect(Sandbox.list({ apiKey, query: { metadata } })))
  equal(
    await by({ odd: '1' }),
    [made[3], made[1]].map((s) => s.sandboxId),
  )
  equal(await by({ odd: '1', n: '3' }), [made[3].sandboxId])
  equal(await by({ odd: '1', n: '2' }), [])
  equal(await by({ 'a b': 'c&d=é%20+/?#' }), [odd.sandboxId])
  equal(await by({ n: 'none' }), [])
  await end([...made, odd])
})

test('state, template and startedAfter', async () => {
  const [made, apiKey] = await five('states')
  equal(await made[1].pause(), true)
  const by = async (query) => ids(await collect(Sandbox.list({ apiKey, query })))
  const all = ids(made).reverse()
  equal(await by({ state: ['paused'] }), [made[1].sandboxId])
  equal(
    await by({ state: ['running'] }),
    all.filter((id) => id !== made[1].sandboxId),
  )
  equal(await by({ state: ['running', 'paused'] }), all)
  equal(await by(undefined), all, 'both without a filter')
  equal(await by({ template: 'base' }), all)
  equal(await by({ template: 'no-such-template' }), [], 'an unknown template is no error')
  const { startedAt } = await made[2].getInfo()
  const after = await by({ startedAfter: new Date(startedAt.getTime() + 1) })
  equal(after, [made[4].sandboxId, made[3].sandboxId])
  equal(await by({ startedAfter: startedAt }), ids([made[4], made[3], made[2]]), 'inclusive')
  equal(await by({ startedAfter: new Date(Date.now() + 60_000) }), [])
  await end(made)
})

test('what cannot be a filter is refused', async () => {
  const bad = [
    { limit: 0 },
    { limit: 101 },
    { limit: -1 },
    { nextToken: 'garbage' },
    { order: 'sideways' },
    { query: { state: ['sleeping'] } },
    { query: { template: 'base:tag' } },
  ]
  for (const opts of bad) {
    const e = await fails(Sandbox.list(opts).nextItems(), SandboxError, /^400: ./)
    equal(e.statusCode, 400, JSON.stringify(opts))
  }
  check((await Sandbox.list({ limit: 100 }).nextItems()).length === 0, 'a limit of 100 is fine')
})

await run()

// What does not exist says so, quickly and in words; limits say so, too.
// server: pool_size=2
import { check, e2b, equal, fails, matches, operator, run, test, within } from './harness.mjs'

const { RateLimitError, Sandbox, SandboxError, Template } = e2b

test('deleteSnapshot', async () => {
  const gone = await within(
    Sandbox.deleteSnapshot('abc123:default').catch((e) => e),
    3,
  )
  equal(gone, false)
})

test("the server's own templates cannot be built over or tagged", async () => {
  const template = Template().fromTemplate('base').runCmd('true')
  for (const [name, call] of [
    ['build', () => Template.build(template, 'base')],
    ['assignTags', () => Template.assignTags('base:default', 'v1')],
    ['removeTags', () => Template.removeTags('base', 'v1')],
    ['getTags', () => Template.getTags('base')],
  ]) {
    const error = await within(call().then(() => undefined, (e) => e), 5, name)
    matches(error?.message, /403: .*belongs to/, name)
  }
})

test('templates that there are', async () => {
  equal(await Template.exists('base'), true)
  equal(await Template.exists('host'), true)
  equal(await Template.aliasExists('base'), true)
  equal(await Template.exists('no-such-template'), false)
})

test('too many sandboxes', async () => {
  const [, apiKey] = await operator('tenant', { name: 'small', limits: { max_sessions: 2 } })
  const both = [await Sandbox.create({ apiKey }), await Sandbox.create({ apiKey })]
  const e = await fails(Sandbox.create({ apiKey, retries: 0 }), RateLimitError)
  equal(e.statusCode, 429)
  await both[0].kill()
  const third = await Sandbox.create({ apiKey })
  await Promise.all([both[1].kill(), third.kill()])
})

test('a server that is not there', async () => {
  const nowhere = { apiUrl: 'http://127.0.0.1:1', sandboxUrl: 'http://127.0.0.1:1' }
  await within(
    Sandbox.create(nowhere).then(
      () => check(false, 'created'),
      () => {},
    ),
    5,
  )
})

test('every error of the interface is JSON with its code', async () => {
  const client = new e2b.ApiClient(new e2b.ConnectionConfig())
  const { error, response } = await client.api.GET('/sandboxes/{sandboxID}', {
    params: { path: { sandboxID: 'i0000000000000000' } },
  })
  equal(response.status, 404)
  equal(error, { code: 404, message: 'Sandbox "i0000000000000000" doesn\'t exist or you don\'t have access to it' })
  const bad = new e2b.ApiClient(new e2b.ConnectionConfig({ apiKey: 'e2b_bad' }))
  const refused = await bad.api.GET('/v2/sandboxes', {})
  equal([refused.response.status, refused.error.code], [401, 401])
})

await run()

// Secrets: made, listed, changed and destroyed by the SDK; never shown.
// server: pool_size=1
import { check, e2b, equal, fails, matches, near, run, test } from './harness.mjs'

const { Secret, SecretError, SecretNotFoundError } = e2b

test('create, getInfo, exists, update, destroy', async () => {
  const made = await Secret.create('API_KEY', 'the-value', { metadata: { team: 'a' } })
  matches(made.secretId, /^sec_[a-z0-9]+$/, 'secretId')
  equal([made.name, made.version, made.metadata], ['API_KEY', 1, { team: 'a' }])
  near(new Date(made.createdAt).getTime(), Date.now(), 5000, 'createdAt')
  equal(await Secret.getInfo('API_KEY'), made)
  equal(await Secret.getInfo(made.secretId), made)
  equal(await Secret.exists('API_KEY'), true)
  equal(await Secret.exists('nobody'), false)
  const changed = await Secret.update('API_KEY', 'another-value')
  equal([changed.secretId, changed.version, changed.metadata], [made.secretId, 2, { team: 'a' }])
  check(!JSON.stringify([made, changed]).includes('-value'), 'a value is shown')
  equal(await Secret.destroy('API_KEY'), true)
  equal(await Secret.destroy('API_KEY'), false)
  await fails(Secret.getInfo('API_KEY'), SecretNotFoundError)
  await fails(Secret.update('API_KEY', 'x'), SecretNotFoundError)
})

test('a list in pages', async () => {
  for (const i of [1, 2, 3, 4, 5]) await Secret.create(`s${i}`, 'value')
  const names = []
  const pages = Secret.list({ limit: 2 })
  let n = 0
  while (pages.hasNext) {
    names.push(...(await pages.nextItems()).map((s) => s.name))
    n++
  }
  equal([names, n], [['s1', 's2', 's3', 's4', 's5'], 3])
  for (const name of names) await Secret.destroy(name)
})

test('what cannot be', async () => {
  await Secret.create('taken', 'value')
  await fails(Secret.create('taken', 'value'), SecretError, /taken/)
  await fails(Secret.create('a b', 'value'), SecretError, /name/)
  await fails(Secret.create('x', ''), SecretError, /value/)
  equal(await Secret.destroy('taken'), true)
})

await run()

// Addresses of files that carry their own permission.
// server: pool_size=2
import { check, e2b, equal, matches, run, test } from './harness.mjs'

const get = async (url) => {
  const answer = await fetch(url)
  return [answer.status, await answer.text()]
}

test('download and upload, with and without an end', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.write('a b.txt', 'signed ☃')
  equal(await get(await sandbox.downloadUrl('a b.txt')), [200, 'signed ☃'])
  equal(await get(await sandbox.downloadUrl('a b.txt', { useSignatureExpiration: 60 })), [200, 'signed ☃'])
  const form = new FormData()
  form.append('file', new Blob(['uploaded']), 'ignored.txt')
  const answer = await fetch(await sandbox.uploadUrl('up/f', { useSignatureExpiration: 60 }), {
    method: 'POST',
    body: form,
  })
  equal([answer.status, await answer.json()], [200, [{ path: '/home/user/up/f', name: 'f', type: 'file' }]])
  equal(await sandbox.files.read('up/f'), 'uploaded')
})

test('an upload without a path takes the name of the part', async (t) => {
  const sandbox = await t.create()
  const form = new FormData()
  form.append('file', new Blob(['named']), 'dir/name.txt')
  const answer = await fetch(await sandbox.uploadUrl(), { method: 'POST', body: form })
  equal(
    [answer.status, await answer.json()],
    [200, [{ path: '/home/user/dir/name.txt', name: 'name.txt', type: 'file' }]],
  )
})

test('a plain field without a name is a file, too', async (t) => {
  const sandbox = await t.create()
  const form = new FormData()
  form.append('file', 'just text')
  const answer = await fetch(await sandbox.uploadUrl('plain'), { method: 'POST', body: form })
  equal(answer.status, 200)
  equal(await sandbox.files.read('plain'), 'just text')
})

test('as another user', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.write('r', 'of root', { user: 'root' })
  equal(await get(await sandbox.downloadUrl('r', { user: 'root' })), [200, 'of root'])
  equal((await get(await sandbox.downloadUrl('r')))[0], 404, 'the user has none')
})

test('each is for one file, one direction, one user, one sandbox', async (t) => {
  const [sandbox, other] = [await t.create(), await t.create()]
  await sandbox.files.write('a', 'A')
  await sandbox.files.write('b', 'B')
  await other.files.write('a', 'of the other')
  const invalid = [401, '{"code":401,"message":"invalid signature"}']
  const change = async (edit) => {
    const url = new URL(await sandbox.downloadUrl('a', { useSignatureExpiration: 60 }))
    edit(url.searchParams)
    const [status, text] = await get(url)
    return [status, text]
  }
  equal(await change(() => {}), [200, 'A'])
  equal(await get(await other.downloadUrl('a')), [200, 'of the other'], 'found by its signature')
  equal(await change((q) => q.set('path', 'b')), invalid)
  equal(await change((q) => q.set('username', 'root')), invalid)
  equal(await change((q) => q.set('signature_expiration', '99999999999')), invalid)
  equal(await change((q) => q.delete('signature_expiration')), invalid)
  equal(await change((q) => q.set('signature', 'v1_AAAA')), invalid)
  const posted = await fetch(await sandbox.downloadUrl('a'), { method: 'POST', body: new FormData() })
  equal(posted.status, 401, 'to read is not to write')
  equal(await sandbox.files.read('a'), 'A')
})

test('expired', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.write('a', 'A')
  const expired = [401, '{"code":401,"message":"signature is already expired"}']
  equal(await get(await sandbox.downloadUrl('a', { useSignatureExpiration: -5 })), expired)
  const answer = await fetch(await sandbox.uploadUrl('a', { useSignatureExpiration: -5 }), {
    method: 'POST',
    body: new FormData(),
  })
  equal([answer.status, await answer.text()], expired)
})

test('they survive a pause and end with the sandbox', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.write('a', 'A')
  const url = await sandbox.downloadUrl('a')
  await sandbox.pause()
  check((await get(url))[0] >= 400, 'nothing comes out of a paused sandbox')
  await sandbox.connect()
  equal(await get(url), [200, 'A'])
  await sandbox.kill()
  const [status, text] = await get(url)
  check(status >= 400, `a dead sandbox answers ${status}`)
  matches(text, /"code":\d/)
})

test('the SDK’s own signature', async () => {
  const token = '0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0'
  const { signature } = await e2b.getSignature({
    path: 'hello.txt',
    operation: 'read',
    user: 'user',
    envdAccessToken: token,
  })
  equal(signature, 'v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E')
})

await run()

// HTTPS: E2B_DOMAIN and the server's own authority, no other address. The API is at api.DOMAIN, each sandbox at its own name.
// server: pool_size=2 tls_local=yes domain=cordon.localhost:{port}
import dns from 'node:dns'
import { e2b, equal, fails, load, matches, run, test, until } from './harness.mjs'

// Every name is this machine: what a wildcard entry in the DNS does for others.
dns.lookup = (name, options, done) =>
  options.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4)

const { CommandExitError, Sandbox, SandboxNotFoundError } = e2b
const { Agent, WebSocket } = load('undici')
const domain = process.env.E2B_DOMAIN

test('the life of a sandbox over HTTPS', async (t) => {
  const sandbox = await t.create({ metadata: { over: 'tls' } })
  equal(sandbox.sandboxDomain, domain)
  equal(sandbox.getHost(3000), `3000-${sandbox.sandboxId}.${domain}`)
  equal(await sandbox.isRunning(), true)
  equal((await sandbox.commands.run('echo safe')).stdout, 'safe\n')
  equal((await fails(sandbox.commands.run('exit 3'), CommandExitError)).exitCode, 3)
  await sandbox.files.write('f', 'text')
  equal(await sandbox.files.read('f'), 'text')
  const url = await sandbox.downloadUrl('f')
  matches(url, new RegExp(`^https://49983-${sandbox.sandboxId}\\.${domain}/files\\?`))
  equal(await (await fetch(url)).text(), 'text')
  equal((await Sandbox.list({ query: { metadata: { over: 'tls' } } }).nextItems()).length, 1)
  equal(await sandbox.pause(), true)
  await sandbox.connect()
  equal(await sandbox.kill(), true)
  await fails(sandbox.commands.run('true'), SandboxNotFoundError)
})

test('a web server and a WebSocket of the sandbox, at the names of getHost', async (t) => {
  const { serve } = await import('./inside.mjs')
  const sandbox = await t.create()
  const get = async (path) => {
    const answer = await fetch(`https://${sandbox.getHost(3000)}${path}`)
    return [answer.status, await answer.json()]
  }
  await serve(sandbox, 3000, undefined, async () => (await get('/up'))[0] === 200)
  const [status, seen] = await get('/x')
  equal([status, seen.path, seen.headers['x-forwarded-proto']], [200, '/x', 'https'])
  const heard = []
  const ws = new WebSocket(`wss://${sandbox.getHost(3000)}/ws`, { dispatcher: new Agent() })
  ws.onmessage = ({ data }) => heard.push(data)
  await until(() => heard[0] === 'welcome', 'the welcome')
  ws.send('echo')
  await until(() => heard[1] === 'echo', 'the echo')
  ws.close()
})

test('a megabyte each way, and a stream', async (t) => {
  const sandbox = await t.create()
  const data = Buffer.alloc(5 << 20, 'over tls ')
  await sandbox.files.write('big', new Blob([data]), { useOctetStream: true })
  equal(Buffer.compare(data, Buffer.from(await sandbox.files.read('big', { format: 'bytes' }))), 0)
  equal((await sandbox.commands.run('seq 1 100000 | tail -n 1')).stdout, '100000\n')
  let text = ''
  await sandbox.commands.run('seq 1 100000', { onStdout: (part) => void (text += part) })
  equal(text.length, 588895)
})

await run()

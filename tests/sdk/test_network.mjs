// Network options: checked, kept, shown, enforced; tokens and masks of ports.
// server: pool_size=2
import { check, e2b, equal, fails, request, run, test, until } from './harness.mjs'
import { serve } from './inside.mjs'

const { ALL_TRAFFIC, InvalidArgumentError, Sandbox, SandboxError, SandboxNotFoundError } = e2b

const shown = async (sandbox) => (await sandbox.getInfo()).network

test('options are kept and shown', async (t) => {
  const network = {
    allowOut: ['1.1.1.1', '10.0.0.0/8', 'example.org', '*.example.com'],
    denyOut: [ALL_TRAFFIC],
    rules: { 'api.example.org': [{ transform: { headers: { 'X-Key': 'value' } } }] },
    httpsPorts: [8443],
    maskRequestHost: 'localhost:${PORT}',
  }
  const got = await shown(await t.create({ network }))
  equal(
    [got.allowOut, got.denyOut, got.rules, got.httpsPorts, got.maskRequestHost],
    [network.allowOut, network.denyOut, network.rules, network.httpsPorts, network.maskRequestHost],
  )
  check(got.allowPublicTraffic !== false, 'public traffic is the default')
})

test('allowInternetAccess', async (t) => {
  const sandbox = await t.create({ allowInternetAccess: false })
  equal((await sandbox.getInfo()).allowInternetAccess, false)
  const other = await t.create({ allowInternetAccess: true })
  equal((await other.getInfo()).allowInternetAccess, true)
})

test('an egress proxy is shown without its password', async (t) => {
  const egressProxy = { address: 'proxy.example.org:1080', username: 'u', password: 'secret' }
  const got = await shown(await t.create({ network: { egressProxy } }))
  equal(got.egressProxy, { address: 'proxy.example.org:1080', username: 'u' })
})

const refused = [
  ['a domain without everything else denied', { allowOut: ['example.org'] }],
  ['a domain denied', { denyOut: ['example.org'] }],
  ['no address', { denyOut: ['300.1.1.1'] }],
  ['no network', { allowOut: ['10.0.0.0/99'] }],
  ['the port of envd', { httpsPorts: [49983] }],
  ['a port twice', { httpsPorts: [8443, 8443] }],
  ['no port', { httpsPorts: [70000] }],
  ['too many ports', { httpsPorts: Array.from({ length: 129 }, (_, i) => i + 1000) }],
  ['too many rules', { rules: Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`h${i}.example.org`, [{}]])) }],
  [
    'two transforms',
    { rules: { 'example.org': [{ transform: { headers: { A: '1' } } }, { transform: { headers: { B: '1' } } }] } },
  ],
  [
    'too many headers',
    {
      rules: {
        'example.org': [
          { transform: { headers: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`H${i}`, 'v'])) } },
        ],
      },
    },
  ],
  ['a long header name', { rules: { 'example.org': [{ transform: { headers: { ['H'.repeat(65)]: 'v' } } }] } }],
  ['a long header value', { rules: { 'example.org': [{ transform: { headers: { H: 'v'.repeat(2049) } } }] } }],
  ['a long domain', { rules: { [`${'d'.repeat(125)}.org`]: [{}] } }],
]

for (const [what, network] of refused) {
  test(`refused: ${what}`, async () => {
    const e = await fails(Sandbox.create({ network }), SandboxError, /^400: ./)
    equal(e.statusCode, 400)
  })
}

test('workload identity is refused, not ignored', async () => {
  const iam = { tokens: { mine: { audience: 'a', tokenType: 'jwt' } } }
  equal((await fails(Sandbox.create({ iam }), SandboxError)).statusCode, 400)
})

test('updateNetwork replaces everything', async (t) => {
  const sandbox = await t.create({
    network: { allowOut: ['1.1.1.1'], denyOut: [ALL_TRAFFIC], maskRequestHost: 'x:${PORT}' },
  })
  await sandbox.updateNetwork({ denyOut: ['8.8.8.8'] })
  const got = await shown(sandbox)
  equal([got.allowOut ?? [], got.denyOut], [[], ['8.8.8.8']])
  await sandbox.updateNetwork({})
  equal((await shown(sandbox))?.denyOut ?? [], [])
  await sandbox.updateNetwork({ allowInternetAccess: false })
  equal((await sandbox.getInfo()).allowInternetAccess, false)
  equal((await fails(sandbox.updateNetwork({ denyOut: ['example.org'] }), SandboxError)).statusCode, 400)
  await fails(Sandbox.updateNetwork('i0000000000000000', {}), SandboxNotFoundError)
  await fails(sandbox.updateNetwork({ egressProxy: { address: 5 } }), InvalidArgumentError)
})

test('without public traffic every port but envd’s asks for the token', async (t) => {
  const sandbox = await t.create({ network: { allowPublicTraffic: false } })
  const token = sandbox.trafficAccessToken
  check(token?.length >= 16, `traffic token ${token}`)
  equal((await shown(sandbox)).allowPublicTraffic, false)
  await serve(sandbox, 3000, token)
  const ask = (headers) => request('GET', '/x', { host: sandbox.getHost(3000), headers })
  const denied = {
    sandboxId: sandbox.sandboxId,
    message: "Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing",
    code: 403,
  }
  const without = await ask({})
  equal([without.status, without.json], [403, denied])
  equal((await ask({ 'e2b-traffic-access-token': 'wrong' })).status, 403)
  equal((await ask({ 'e2b-traffic-access-token': sandbox.envdAccessToken })).status, 403)
  const good = await ask({ 'e2b-traffic-access-token': token })
  equal(good.status, 200)
  equal((await sandbox.commands.run('echo envd needs none')).exitCode, 0)
  const again = await Sandbox.connect(sandbox.sandboxId)
  equal(again.trafficAccessToken, token)
  await sandbox.pause()
  equal((await Sandbox.connect(sandbox.sandboxId)).trafficAccessToken, token, 'after a pause')
})

test('maskRequestHost is what the server inside sees', async (t) => {
  const sandbox = await t.create({ network: { maskRequestHost: 'my.app:${PORT}' } })
  await serve(sandbox, 3000)
  equal((await request('GET', '/', { host: sandbox.getHost(3000) })).json.headers.host, 'my.app:3000')
})

// ---- enforced: what the sandbox can reach is what the options say. Names need no server to be judged by: the record
// of a lookup has the verdict. Addresses are judged when they are connected to.

const lookups = async (sandbox, name) => {
  const path = `/v1/sessions/${sandbox.sandboxId}/network/log?kind=dns&name=${name}`
  const headers = { 'X-API-Key': process.env.E2B_API_KEY }
  return (await request('GET', path, { headers })).json.records
}
const allows = async (sandbox, name) => {
  const before = (await lookups(sandbox, name)).length
  await sandbox.commands.run(`getent ahosts ${name} || true`)
  const after = await until(
    async () => {
      const now = await lookups(sandbox, name)
      return now.length > before && now
    },
    `the record of ${name}`,
  )
  return after.at(-1).verdict === 'allow'
}
const connects = async (sandbox, address) => {
  const script = `import socket\ntry:\n s = socket.create_connection(("${address}", 80), 5)\n s.sendall(b"GET / HTTP/1.1\\r\\nHost: ${address}\\r\\n\\r\\n")\n print(s.recv(4096).decode())\nexcept OSError as e:\n print("error", e)`
  return (await sandbox.commands.run(`python3 -c '${script.replace(/'/g, "'\\''")}'`)).stdout
}

test('a domain that is allowed is, others are not', async (t) => {
  const sandbox = await t.create({ network: { allowOut: ['a.example', '*.b.example'], denyOut: [ALL_TRAFFIC] } })
  check(await allows(sandbox, 'a.example'), 'an allowed name')
  check(await allows(sandbox, 'x.b.example'), 'a name below an allowed one')
  check(!(await allows(sandbox, 'b.example')), 'the name above')
  check(!(await allows(sandbox, 'c.example')), 'a name that is not allowed')
})

test('without internet access nothing is there', async (t) => {
  const sandbox = await t.create({ allowInternetAccess: false })
  check(!(await allows(sandbox, 'a.example')), 'a name')
  check(!(await connects(sandbox, '203.0.113.5')).includes('200 OK'), 'an address')
})

test('a name that is not denied is allowed when only addresses are denied', async (t) => {
  const sandbox = await t.create({ allowInternetAccess: true, network: { denyOut: ['8.8.8.8'] } })
  check(await allows(sandbox, 'a.example'), 'a name')
  const said = await connects(sandbox, '8.8.8.8')
  check(/error|403/.test(said), `a denied address: ${said}`)
})

test('private addresses stay closed', async (t) => {
  const sandbox = await t.create({ network: { allowOut: ['169.254.169.254', '10.0.0.0/8'] } })
  for (const address of ['169.254.169.254', '10.0.0.1'])
    check(!/200 OK/.test(await connects(sandbox, address)), address)
})

test('updateNetwork counts at once', async (t) => {
  const sandbox = await t.create({ network: { allowOut: ['a.example'], denyOut: [ALL_TRAFFIC] } })
  check(await allows(sandbox, 'a.example'), 'before')
  await sandbox.updateNetwork({ allowOut: ['b.example'], denyOut: [ALL_TRAFFIC] })
  check(!(await allows(sandbox, 'a.example')), 'the old name')
  check(await allows(sandbox, 'b.example'), 'the new one')
  await sandbox.updateNetwork({ allowInternetAccess: false })
  check(!(await allows(sandbox, 'b.example')), 'after everything was denied')
})

test('a header that needs what there is not is refused', async () => {
  const rules = (value) => ({ 'a.example': [{ transform: { headers: { 'X-Key': value } } }] })
  for (const value of ['${e2b.secrets.NOSUCH}', '${e2b.identity.tokens.mine}'])
    equal((await fails(Sandbox.create({ network: { rules: rules(value) } }), SandboxError)).statusCode, 400)
})

await run()

// Lifecycle: created, connected to, asked about, killed; by its owner and by others.
// server: pool_size=4
import { address, check, e2b, equal, fails, level, matches, near, operator, run, test, until } from './harness.mjs'

const {
  AuthenticationError,
  E2B,
  FileNotFoundError,
  InvalidArgumentError,
  Sandbox,
  SandboxError,
  SandboxNotFoundError,
  TimeoutError,
} = e2b
const memory = level === 'microvm' ? 256 : 512 // MiB: see tests/server/leveled.py
const UNKNOWN = 'i0000000000000000'

test('a new sandbox has an id, a domain, a token, and runs', async (t) => {
  const sandbox = await t.create()
  matches(sandbox.sandboxId, /^[a-z0-9]{1,39}$/, 'id')
  equal(sandbox.sandboxDomain, `localhost:${address.split(':')[1]}`)
  equal(sandbox.getHost(3000), `3000-${sandbox.sandboxId}.${sandbox.sandboxDomain}`)
  equal(sandbox.getMcpUrl(), `https://50005-${sandbox.sandboxId}.${sandbox.sandboxDomain}/mcp`)
  check(sandbox.envdAccessToken?.length >= 16, 'no access token')
  equal(sandbox.trafficAccessToken, undefined)
  equal(await sandbox.isRunning(), true)
})

test('what getInfo says of a sandbox made with nothing', async (t) => {
  const before = Date.now()
  const sandbox = await t.create()
  const info = await sandbox.getInfo()
  equal(info.sandboxId, sandbox.sandboxId)
  equal(info.templateId, 'base')
  equal(info.state, 'running')
  equal(info.metadata, {})
  equal(info.volumeMounts, [])
  equal(info.sandboxDomain, sandbox.sandboxDomain)
  equal(info.lifecycle, { onTimeout: 'kill', autoResume: false })
  check(Number.isInteger(info.cpuCount) && info.cpuCount >= 1, `cpuCount ${info.cpuCount}`)
  equal(info.memoryMB, memory, 'the default of the server')
  near(info.startedAt.getTime(), before, 3000, 'startedAt')
  near(info.endAt - info.startedAt, 300_000, 1500, 'a life of 300 s')
  const [major, minor, patch] = info.envdVersion.split('.').map(Number)
  check(major > 0 || minor > 6 || (minor === 6 && patch >= 4), `envdVersion ${info.envdVersion}`)
  equal(await Sandbox.getFullInfo(sandbox.sandboxId), info)
})

test('metadata, environment and time are as they were asked for', async (t) => {
  const metadata = { user: 'ada', 'with space': 'a=b&c', ünï: 'cödé ☃', empty: '' }
  const sandbox = await t.create({ metadata, envs: { ONE: '1', TEXT: 'two words' }, timeoutMs: 42_000 })
  const info = await sandbox.getInfo()
  equal(info.metadata, metadata)
  near(info.endAt - info.startedAt, 42_000, 1500, 'a life of 42 s')
  equal((await sandbox.commands.run('echo "$ONE $TEXT"')).stdout, '1 two words\n')
})

test('template names: base, host, code-interpreter-v1 and mcp-gateway are there, others are not', async (t) => {
  for (const name of ['base', 'host', 'code-interpreter-v1', 'mcp-gateway']) {
    const sandbox = await t.create(name)
    equal((await sandbox.commands.run('echo in')).stdout, 'in\n')
    check((await sandbox.getInfo()).templateId.length > 0, `templateId of ${name}`)
  }
  for (const name of ['no-such-template', 'team/none', 'Base!', '']) {
    const e = await fails(Sandbox.create(name), SandboxError)
    check(e.statusCode === 404 || (e.statusCode === 400 && name !== 'no-such-template'), `${name}: ${e.message}`)
    matches(e.message, new RegExp(`^${e.statusCode}: .*\\w`), name)
  }
})

test('connect gives a second handle to the same sandbox', async (t) => {
  const first = await t.create()
  await first.files.write('note', 'from the first')
  const second = await Sandbox.connect(first.sandboxId)
  equal(second.sandboxId, first.sandboxId)
  equal(second.envdAccessToken, first.envdAccessToken, 'the token is of the sandbox')
  equal(second.sandboxDomain, first.sandboxDomain)
  equal(await second.files.read('note'), 'from the first')
  check((await first.connect()) === first, 'connect of a handle gives itself')
})

test('kill: true, then false, and nothing works any more', async (t) => {
  const sandbox = await t.create()
  const id = sandbox.sandboxId
  equal(await sandbox.kill(), true)
  equal(await sandbox.kill(), false)
  equal(await Sandbox.kill(id), false)
  equal(await sandbox.isRunning(), false)
  const gone = [
    [sandbox.getInfo(), SandboxNotFoundError],
    [sandbox.connect(), SandboxNotFoundError],
    [Sandbox.connect(id), SandboxNotFoundError],
    [sandbox.setTimeout(1000), SandboxNotFoundError],
    [sandbox.pause(), SandboxNotFoundError],
    [sandbox.getMetrics(), SandboxNotFoundError],
    [sandbox.updateNetwork({}), SandboxNotFoundError],
    [sandbox.commands.run('true'), SandboxNotFoundError],
    [sandbox.commands.connect(1), SandboxNotFoundError],
    [sandbox.files.watchDir('.', () => {}), SandboxNotFoundError],
    [sandbox.commands.list(), TimeoutError],
    [sandbox.files.list('.'), TimeoutError],
    [sandbox.files.exists('x'), TimeoutError],
    [sandbox.files.read('x'), TimeoutError],
    [sandbox.files.write('x', 'y'), TimeoutError],
  ]
  for (const [promise, kind] of gone) promise.catch(() => {})
  for (const [promise, kind] of gone) await fails(promise, kind)
})

test('ids that are nobody’s, and no ids at all', async () => {
  equal(await Sandbox.kill(UNKNOWN), false)
  await fails(Sandbox.getInfo(UNKNOWN), SandboxNotFoundError, new RegExp(UNKNOWN))
  await fails(Sandbox.connect(UNKNOWN), SandboxNotFoundError)
  for (const id of ['Not!an~id', 'UPPER', 'a.b']) {
    const e = await fails(Sandbox.getInfo(id), SandboxError, /Invalid sandbox ID/)
    equal(e.statusCode, 400, id)
  }
})

test('keys: none, wrong, malformed, and those of a client object', async (t) => {
  await fails(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), AuthenticationError, /Unauthorized/)
  await fails(Sandbox.list({ apiKey: 'nonsense' }).nextItems(), AuthenticationError)
  await fails(Sandbox.kill(UNKNOWN, { apiKey: 'e2b_' }), AuthenticationError)
  const key = process.env.E2B_API_KEY
  delete process.env.E2B_API_KEY
  try {
    await fails(Sandbox.create(), AuthenticationError, /API key is required/)
    const client = new E2B({ apiKey: key })
    const sandbox = t.keep(await client.Sandbox.create())
    equal((await sandbox.commands.run('echo bound')).stdout, 'bound\n')
    equal(await sandbox.kill(), true)
  } finally {
    process.env.E2B_API_KEY = key
  }
})

test('another tenant neither sees nor reaches it', async (t) => {
  const [, apiKey] = await operator('tenant', { name: 'stranger' })
  const mine = await t.create({ metadata: { whose: 'mine' } })
  const id = mine.sandboxId
  await fails(Sandbox.getInfo(id, { apiKey }), SandboxNotFoundError)
  await fails(Sandbox.connect(id, { apiKey }), SandboxNotFoundError)
  await fails(Sandbox.setTimeout(id, 1000, { apiKey }), SandboxNotFoundError)
  await fails(Sandbox.pause(id, { apiKey }), SandboxNotFoundError)
  equal(await Sandbox.kill(id, { apiKey }), false)
  equal(await Sandbox.list({ apiKey }).nextItems(), [])
  const theirs = await Sandbox.create({ apiKey })
  const forged = new Sandbox({
    ...mine.connectionConfig,
    sandboxId: id,
    envdVersion: '0.6.13',
    envdAccessToken: theirs.envdAccessToken,
  })
  await fails(forged.files.read('/etc/hostname'), AuthenticationError)
  await fails(forged.commands.run('true'), AuthenticationError)
  const tokenless = new Sandbox({ ...mine.connectionConfig, sandboxId: id, envdVersion: '0.6.13' })
  await fails(tokenless.files.list('/'), AuthenticationError)
  equal(await Sandbox.kill(theirs.sandboxId, { apiKey }), true)
  equal(await mine.isRunning(), true)
})

test('the token of an MCP gateway is a file of root', async (t) => {
  const sandbox = await t.create()
  await fails(sandbox.getMcpToken(), FileNotFoundError)
  await sandbox.files.write('/etc/mcp-gateway/.token', 'secret', { user: 'root' })
  equal(await sandbox.getMcpToken(), 'secret')
})

test('metrics', async (t) => {
  const sandbox = await t.create()
  const metrics = await until(
    async () => {
      const list = await sandbox.getMetrics()
      return list.length > 0 && list
    },
    'a metric',
    15,
    200,
  )
  const one = metrics.at(-1)
  near(one.timestamp.getTime(), Date.now(), 20_000, 'timestamp')
  for (const name of ['cpuUsedPct', 'cpuCount', 'memUsed', 'memTotal', 'memCache', 'diskUsed', 'diskTotal']) {
    check(typeof one[name] === 'number' && one[name] >= 0, `${name} is ${one[name]}`)
  }
  check(one.memTotal === memory * 2 ** 20 && one.memUsed > 0 && one.memUsed < one.memTotal, JSON.stringify(one))
  const future = new Date(Date.now() + 3600_000)
  equal(await sandbox.getMetrics({ start: future, end: future }), [])
  check((await Sandbox.getMetrics(sandbox.sandboxId)).length > 0, 'by id')
})

test('what the SDK refuses by itself does not reach the server', async () => {
  await fails(Sandbox.create({ lifecycle: { onTimeout: 'hibernate' } }), InvalidArgumentError)
  await fails(Sandbox.create({ lifecycle: { onTimeout: 'kill', autoResume: true } }), InvalidArgumentError)
  equal(await Sandbox.list().nextItems(), [])
})

await run()

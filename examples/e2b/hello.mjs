// The example of doc/e2b.md: what an agent does in a sandbox, with E2B's own SDK.
//
//   E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL (or E2B_API_KEY and E2B_DOMAIN) name the Cordon server.
import { Sandbox } from 'e2b'

const sandbox = await Sandbox.create({ timeoutMs: 60_000, metadata: { agent: 'hello' } })
console.log('sandbox', sandbox.sandboxId)

// Code that a model wrote, and its result.
await sandbox.files.write('primes.py', 'print([n for n in range(2, 40) if all(n % d for d in range(2, n))])\n')
const result = await sandbox.commands.run('python3 primes.py')
console.log('primes', result.stdout.trim())

// Output as it comes.
await sandbox.commands.run('for i in 1 2 3; do echo line $i; sleep 0.1; done', {
  onStdout: (text) => process.stdout.write(`streamed ${text}`),
})

// A failing command is an exception that has its output.
try {
  await sandbox.commands.run('echo to stderr >&2; exit 3')
} catch (error) {
  console.log('exit code', error.exitCode, error.stderr.trim())
}

// A server inside, seen from outside.
const server = await sandbox.commands.run('python3 -m http.server 8000', { background: true })
const url = process.env.E2B_SANDBOX_URL ?? `https://${sandbox.getHost(8000)}`
for (let tries = 0; ; tries++) {
  const answer = await fetch(url, {
    headers: { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '8000' },
  })
  if (answer.ok) {
    console.log('server says', answer.status, (await answer.text()).includes('primes.py'))
    break
  }
  if (tries > 100) throw new Error(`port 8000: ${answer.status} ${await answer.text()}`)
  await new Promise((go) => setTimeout(go, 50))
}
await server.kill()

// Put aside, and taken up again where it was.
await sandbox.pause()
const again = await Sandbox.connect(sandbox.sandboxId)
console.log('files after pause', (await again.files.list('.')).map((entry) => entry.name).includes('primes.py'))

await again.kill()
console.log('gone', !(await again.isRunning()))

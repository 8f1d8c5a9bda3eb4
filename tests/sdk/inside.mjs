// inside.mjs - starts inside.py in a sandbox.
import { readFileSync } from 'node:fs'
import { request, until } from './harness.mjs'

const program = readFileSync(new URL('./inside.py', import.meta.url), 'utf8')

// Returns when it answers at the port; it runs as long as the sandbox. answers: another way to ask.
export async function serve(sandbox, port, token, answers) {
  await sandbox.files.write('/tmp/inside.py', program)
  const handle = await sandbox.commands.run(`/usr/bin/python3 /tmp/inside.py ${port}`, {
    background: true,
    timeoutMs: 0,
  })
  const headers = token ? { 'E2B-Traffic-Access-Token': token } : {}
  const ask = async () => (await request('GET', '/up', { host: sandbox.getHost(port), headers })).status === 200
  await until(async () => handle.exitCode !== undefined || (await (answers ?? ask)()), 'the server inside')
  if (handle.exitCode !== undefined) throw new Error(`the server inside ended: ${handle.stderr}`)
  return handle
}

// Every public method of the SDK has a test in this folder. A newer SDK with more of them fails here first.
// server: pool_size=0
import { readdirSync, readFileSync } from 'node:fs'
import { check, e2b, equal, run, test } from './harness.mjs'

const { Git, Sandbox, Secret, TemplateBase, Volume } = e2b
const here = new URL('.', import.meta.url)
const files = readdirSync(here).filter((name) => /^test_(?!every)\w+\.mjs$/.test(name))
const text = files.map((name) => readFileSync(new URL(name, here), 'utf8')).join('\n')

// TypeScript's private ones, and what only a subclass calls.
const INSIDE = new Set([
  'constructor',
  'length',
  'name',
  'prototype',
  'start',
  'fileUrl',
  'resolveApiOpts',
  'resolveOpts',
  'boundOpts',
  'runGit',
  'runShell',
  'getRemoteUrl',
  'resolveRemoteName',
  'withRemoteCredentials',
  'hasUpstream',
  'defaultTemplate',
  'defaultMcpTemplate',
  'createSandbox',
  'connectSandbox',
  'forkSandbox',
  'supportsStdinClose',
])
// Need no server.
const LOCAL = new Set(['toJSON', 'toDockerfile', 'fill', 'iamToken'])

const own = (object) =>
  Object.getOwnPropertyNames(object).filter((name) => !INSIDE.has(name) && !LOCAL.has(name) && !name.startsWith('_'))

function untested(names, pattern) {
  check(names.length > 0, 'no names: the SDK is built in another way')
  return names.filter((name) => !pattern(name).test(text))
}

test('every method of a sandbox and of its parts', async () => {
  const sandbox = new Sandbox({ sandboxId: 'none', envdVersion: '0.6.13' })
  equal(
    untested(own(Sandbox.prototype), (name) => new RegExp(`\\.${name}\\(`)),
    [],
  )
  for (const part of ['files', 'commands', 'pty', 'git']) {
    const names = own(Object.getPrototypeOf(sandbox[part]))
    equal(
      untested(names, (name) => new RegExp(`\\b${part}\\.${name}\\(`)),
      [],
      part,
    )
  }
  check(sandbox.git instanceof Git, 'git')
})

test('every static method', async () => {
  const all = {
    Sandbox: [...own(Sandbox), ...own(Object.getPrototypeOf(Sandbox))],
    Secret: own(Secret),
    Template: own(TemplateBase),
    Volume: own(Volume),
  }
  for (const [name, names] of Object.entries(all)) {
    equal(
      untested(names, (method) => new RegExp(`\\b${name}\\.${method}\\(`)),
      [],
      name,
    )
  }
})

await run()

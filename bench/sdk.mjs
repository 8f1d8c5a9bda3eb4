// Time to interactive, as public benchmarks of sandboxes take it: from Sandbox.create() to the result of
// the first command, through E2B's own SDK. Called by bench/sdk.py; prints one JSON object a line.
//
//   node sdk.mjs PACKAGES ROUNDS COMMAND...
//
// The first sandbox of the process pays for loading code and is not counted. Every sandbox is killed
// after its time was taken; in a burst after all were.
import { createRequire } from 'node:module'
import { performance } from 'node:perf_hooks'

const [packages, roundsText, ...commands] = process.argv.slice(2)
const rounds = Number(roundsText)
const { Sandbox } = createRequire(packages + '/')('e2b')
const STAGGER_MS = 50

async function once(command) {
  const start = performance.now()
  let sandbox
  try {
    sandbox = await Sandbox.create({ timeoutMs: 120_000 })
    const created = performance.now()
    const result = await sandbox.commands.run(command)
    const end = performance.now()
    if (result.exitCode !== 0 || result.stdout === '') throw new Error('no result')
    return { ms: end - start, create: created - start, run: end - created, sandbox }
  } catch (error) {
    return { error: String(error), sandbox }
  }
}

const kill = async (one) => one.sandbox && (await one.sandbox.kill().catch(() => {}))

async function sequential(command) {
  const all = []
  for (let i = 0; i < rounds; i++) {
    const one = await once(command)
    await kill(one)
    all.push(one)
  }
  return all
}

async function staggered(command) {
  const all = []
  for (let i = 0; i < rounds; i++) {
    all.push(once(command).then(async (one) => (await kill(one), one)))
    await new Promise((go) => setTimeout(go, STAGGER_MS))
  }
  return Promise.all(all)
}

async function burst(command) {
  const all = await Promise.all(Array.from({ length: rounds }, () => once(command)))
  await Promise.all(all.map(kill))
  return all
}

for (const command of commands) {
  await kill(await once(command))
  for (const [how, go] of Object.entries({ sequential, staggered, burst })) {
    const all = await go(command)
    const good = all.filter((one) => one.error === undefined)
    console.log(JSON.stringify({
      command, how, tried: all.length, ms: good.map((one) => one.ms), create: good.map((one) => one.create),
      run: good.map((one) => one.run), errors: [...new Set(all.map((one) => one.error).filter(Boolean))],
    }))
  }
}

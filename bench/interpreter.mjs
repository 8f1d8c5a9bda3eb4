// runCode() through E2B's own SDK. Called by bench/interpreter.py; prints one JSON object.
//
//   node interpreter.mjs PACKAGES ROUNDS
//
// Each round is a new sandbox of the pool; the first of the process pays for loading code and is not counted.
import { createRequire } from 'node:module'
import { performance } from 'node:perf_hooks'

const [packages, rounds] = process.argv.slice(2)
const { Sandbox } = createRequire(packages + '/')('@e2b/code-interpreter')
const times = { create: [], first: [], warm: [], context: [], plot: [] }
const PLOT = 'import matplotlib.pyplot as plt; plt.plot([1, 2, 3]); plt.show()'

async function timed(list, call) {
  const begin = performance.now()
  const result = await call()
  list.push(performance.now() - begin)
  return result
}

function need(execution, text) {
  if (execution.error || execution.text !== text) throw new Error(JSON.stringify(execution))
}

for (let i = 0; i <= Number(rounds); i++) {
  const sandbox = await timed(times.create, () => Sandbox.create({ timeoutMs: 120_000 }))
  need(await timed(times.first, () => sandbox.runCode('1+1')), '2')
  for (let n = 0; n < 10; n++) need(await timed(times.warm, () => sandbox.runCode('1+1')), '2')
  const context = await timed(times.context, () => sandbox.createCodeContext())
  need(await sandbox.runCode('1+1', { context }), '2')
  const plotted = await timed(times.plot, () => sandbox.runCode(PLOT))
  if (plotted.error || !plotted.results.some((result) => result.png)) times.plot.pop()
  await sandbox.kill()
  if (i === 0) for (const list of Object.values(times)) list.length = 0
  await new Promise((go) => setTimeout(go, 1500)) // the pool is filled meanwhile
}
console.log(JSON.stringify(times))

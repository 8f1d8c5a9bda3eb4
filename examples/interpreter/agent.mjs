// The example of doc/interpreter.md: the loop of an agent that works by writing code, with E2B's code interpreter.
//
// There is no model in it: `model` below answers from a script, but as a model does, it sees only the task and what its
// last code gave, and decides what to do next by that. Put a call of your model there.
//
//   E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL (or E2B_API_KEY and E2B_DOMAIN) name the Cordon server.
import { writeFileSync } from 'node:fs'
import { Sandbox } from '@e2b/code-interpreter'

const SALES = `day,region,units,price
2024-01-03,north,120,0.25
2024-01-03,south,300,0.10
2024-01-05,east,12,14.5
2024-01-08,south,500,0.25
`

// --- the model: { code } to run, or { answer }

const SUM = `import csv
totals = {}
for row in csv.DictReader(open('sales.csv')):
    totals[row['region']] = totals.get(row['region'], 0) + int(row['units']) * float(row['price'])
totals`
const CHART = `import matplotlib.pyplot as plt
plt.bar(list(totals), list(totals.values()))
plt.title('Revenue')
plt.show()`
const TEXT = `for region, revenue in totals.items():
    print(f'{region:<6}', '#' * round(revenue / 10))`

function model(seen) {
  if (seen === undefined) return { code: "import csv\nsum(float(row['revenue']) for row in csv.DictReader(open('sales.csv')))" }
  if (seen.error?.name === 'KeyError') return { code: "print(open('sales.csv').readline())" } // which columns are there?
  if (seen.error?.name === 'ModuleNotFoundError') return { code: TEXT } // no matplotlib in this template
  if (seen.error) return { answer: `I cannot: ${seen.error.value}` }
  if (seen.stdout.startsWith('day,')) return { code: SUM }
  if (seen.json) return { code: CHART }
  return { code: "max(totals, key=totals.get)", last: true }
}

// --- the loop

const sandbox = await Sandbox.create({ timeoutMs: 120_000, metadata: { agent: 'analyst' } })
console.log('sandbox', sandbox.sandboxId)
await sandbox.files.write('sales.csv', SALES)

let seen
for (let turn = 1; turn <= 10; turn++) {
  const { code, answer, last } = model(seen)
  if (answer) {
    console.log(answer)
    break
  }
  console.log(`--- ${turn}\n${code}`)
  // State is kept from one call to the next: variables, imports, files.
  const execution = await sandbox.runCode(code, {
    timeoutMs: 20_000,
    onStdout: (message) => process.stdout.write(`> ${message.line}`),
  })
  const { error, results, logs } = execution
  for (const { png, chart } of results.filter((result) => result.png)) {
    writeFileSync('chart.png', Buffer.from(png, 'base64'))
    console.log('= chart.png,', chart.type, 'of', chart.elements.map(({ label, value }) => `${label} ${value}`).join(', '))
  }
  if (error) console.log(`! ${error.name}: ${error.value}`)
  if (execution.text !== undefined) console.log('=', execution.text)
  if (last) {
    console.log('The region with the largest revenue is', execution.text)
    break
  }
  seen = { error, text: execution.text, json: results.find((result) => result.json)?.json, stdout: logs.stdout.join('') }
}

await sandbox.kill()

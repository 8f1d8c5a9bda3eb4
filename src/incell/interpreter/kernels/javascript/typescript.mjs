// typescript.mjs - TypeScript without its types, by what this machine has: node itself, esbuild or the compiler.
// Called by kernel.mjs for each cell. All three only remove types; none checks them. Imports that the cell itself does
// not use must stay, since the next cell may.
import { spawnSync } from 'node:child_process'
import module, { createRequire } from 'node:module'

function syntaxError(message, whole) {
  return Object.assign(new SyntaxError(message), { cell: whole ?? `SyntaxError: ${message}` })
}

function byNode(code) {
  if (!module.stripTypeScriptTypes) return undefined
  const warn = process.emitWarning
  process.emitWarning = () => {} // that it is experimental
  try {
    return module.stripTypeScriptTypes(code, { mode: 'transform' })
  } catch (e) {
    throw syntaxError(e.message)
  } finally {
    process.emitWarning = warn
  }
}

// Two generations of the same option: esbuild passes over the one that it does not know.
const KEEP = '{"compilerOptions":{"preserveValueImports":true,"importsNotUsedAsValues":"remove","verbatimModuleSyntax":true}}'

function byEsbuild(code) {
  const args = ['--loader=ts', '--target=esnext', '--log-level=error', '--color=false', `--tsconfig-raw=${KEEP}`]
  const { status, stdout, stderr, error } = spawnSync('esbuild', args, { input: code, encoding: 'utf8', maxBuffer: 1 << 26 })
  if (error?.code === 'ENOENT') return undefined
  if (status === 0) return stdout
  const what = /\[ERROR\] (.*)/.exec(stderr ?? '')
  throw syntaxError(what ? what[1] : String(error ?? stderr), `SyntaxError: ${(stderr ?? '').trim()}`)
}

const PLACES = ['/usr/share/nodejs/', '/usr/lib/node_modules/', '/usr/local/lib/node_modules/']

function compiler() {
  for (const place of [...PLACES, `${process.cwd()}/`]) {
    try {
      return createRequire(place)('typescript')
    } catch {
      continue
    }
  }
  return undefined
}

function byCompiler(code) {
  const ts = compiler()
  if (!ts) return undefined
  const kind = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ESNext, isolatedModules: true, preserveValueImports: true }
  const { outputText, diagnostics } = ts.transpileModule(code, { compilerOptions: kind, reportDiagnostics: true })
  if (diagnostics.length > 0) throw syntaxError(ts.flattenDiagnosticMessageText(diagnostics[0].messageText, '\n'))
  return outputText.replace(/^export \{\};\s*$/m, '')
}

export function withoutTypes(code) {
  const plain = byNode(code) ?? byEsbuild(code) ?? byCompiler(code)
  if (plain !== undefined) return plain
  throw new Error('nothing here removes types: TypeScript needs node 22.13, or the Debian package esbuild or node-typescript')
}

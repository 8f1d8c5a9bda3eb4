// cell.mjs - the text of a cell, made fit for V8's REPL mode, which knows no modules.
//
// scriptOf() is called by kernel.mjs with code that a user wrote. It changes only what a script cannot have:
// static imports become dynamic ones, import() becomes a call of IMPORT (V8 offers scripts of the inspector no
// loader), import.meta becomes META, and `export` goes. Lines keep their numbers, for tracebacks. Code
// without these words is passed as it is, so the scanner below cannot harm it. What must not change: nothing in
// here runs code of the user.
import { Script } from 'node:vm'

export const IMPORT = '__cordon_import'
export const META = '__cordon_meta'

const STATIC =
  /import\s*(?:(?<name>[\p{ID_Start}$_][\p{ID_Continue}$]*)\s*(?:,\s*|(?=from\b)|\s(?=from\b)))?(?:\*\s*as\s+(?<all>[\p{ID_Start}$_][\p{ID_Continue}$]*)\s*|\{(?<some>[^}]*)\}\s*)?(?:from\s*)?(?<from>"[^"\n]*"|'[^'\n]*')(?:\s*(?:with|assert)\s*(?<how>\{[^}]*\}))?[ \t]*;?/uy
const WORD = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy
const NUMBER = /\.?[0-9](?:[eE][+-]|[\w.])*/y
const SPACE = /(?:\s|\/\/[^\n]*|\/\*[^]*?\*\/)+/y
const STRING = /"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'/y
const REGEXP = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y
const TEMPLATE = /(?:[^`\\$]|\\[^]|\$(?!\{))*/y // up to its end or to ${
// After these words a slash begins a regular expression, after other words it divides.
const BEFORE_REGEXP = new Set(
  'return typeof instanceof in of new delete void throw case do else yield await'.split(' '),
)

function at(pattern, code, i) {
  pattern.lastIndex = i
  return pattern.exec(code)
}

// Calls found(word, index, depth, previous) for each word that is not a property; depth 0 = outside of all brackets.
// What found returns is where to go on, or undefined for after the word.
function scan(code, found) {
  const open = [] // '{', '(', '[' or '${'
  let previous = ''
  for (let i = 0; i < code.length;) {
    const space = at(SPACE, code, i)
    if (space) {
      i += space[0].length
      continue
    }
    const c = code[i]
    let token
    if (c === '`' || (c === '}' && open.at(-1) === '${')) {
      if (c === '}') open.pop()
      const text = at(TEMPLATE, code, i + 1)[0]
      i += 1 + text.length
      const inside = code[i] === '$'
      if (inside) open.push('${')
      i += inside ? 2 : 1
      previous = inside ? '${' : '`'
    } else if ((token = at(STRING, code, i) ?? at(NUMBER, code, i))) {
      i += token[0].length
      previous = '0'
    } else if ((token = at(WORD, code, i))) {
      const word = token[0]
      const next = previous === '.' ? undefined : found(word, i, open.length, previous)
      i = next ?? i + word.length
      previous = BEFORE_REGEXP.has(word) && previous !== '.' ? '(' : 'a'
    } else if (c === '/' && !'a0`)]}'.includes(previous || '(') && (token = at(REGEXP, code, i))) {
      i += token[0].length
      previous = '0'
    } else {
      if ('({['.includes(c)) open.push(c)
      else if (')}]'.includes(c)) open.pop()
      previous = code.startsWith('...', i) ? '(' : c
      i += previous === '(' && c === '.' ? 3 : 1
    }
  }
}

// A list of names needs nothing, a declaration loses the word, a default that is no declaration with a name is a value.
const EXPORT =
  /export\s*(?:(?:\{[^}]*\}|\*(?:\s*as\s+[^\s]+)?)\s*(?:from\s*(?<from>"[^"\n]*"|'[^'\n]*'))?[ \t]*;?|(?<value>default\b(?!\s*(?:async\s+)?(?:function\s*\*?|class)\s+(?!extends\b)[\p{ID_Start}$_])\s*)|(?:default\s+)?(?=[\p{ID_Start}$_]))/uy

const exported = ({ from, value }) => (value ? 'exports.default = ' : from ? `await ${IMPORT}(${from});` : '')

function dynamic({ name, all, some, from, how }) {
  const call = `await ${IMPORT}(${from}${how ? `, { with: ${how} }` : ''})`
  const parts = (some ?? '').split(',').map((part) => part.trim().replace(/\s+as\s+/, ': '))
  const names = [name && `default: ${name}`, ...parts].filter(Boolean).join(', ')
  if (all) return `const ${all} = ${call}${name ? `, { default: ${name} } = ${all}` : ''};`
  return names ? `const { ${names} } = ${call};` : `${call};`
}

const lines = (text) => text.replace(/[^\n]/g, '')

export function withoutModules(code) {
  if (!/\b(?:import|export)\b/.test(code)) return code
  const edits = [] // [from, to, text]
  const replace = (from, to, text) => edits.push([from, to, text + lines(code.slice(from, to))]) && to
  scan(code, (word, i, depth) => {
    if (word === 'export' && depth === 0) {
      const match = at(EXPORT, code, i)
      return match ? replace(i, i + match[0].length, exported(match.groups)) : undefined
    }
    if (word !== 'import') return undefined
    const after = /import\s*(?:(\()|\.\s*meta\b)/y
    const call = at(after, code, i)
    if (call?.[1]) return replace(i, i + call[0].length - 1, IMPORT)
    if (call) return replace(i, i + call[0].length, META)
    const match = depth === 0 ? at(STATIC, code, i) : null
    return match ? replace(i, i + match[0].length, dynamic(match.groups)) : undefined
  })
  return edits.reduceRight((text, [from, to, by]) => text.slice(0, from) + by + text.slice(to), code)
}

function parses(code) {
  try {
    return Boolean(new Script(code))
  } catch {
    return false
  }
}

// The text to evaluate. `{ a: 1 }` means an object to users of a REPL, though it is a block in a script.
export function scriptOf(code, name) {
  let text = withoutModules(code)
  if (/^\s*\{/.test(text) && !/;\s*$/.test(text) && parses(`(${text}\n)`)) text = `(${text}\n)`
  return `${text}\n//# sourceURL=${name}`
}

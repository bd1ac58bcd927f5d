// The rules of the house that no linter knows: who may import whom, no imports in circles, names of files, SQL in statement
// files, and generated files up to date.
// core imports nothing; features import core; databases import core and sql; brokers import core; the command imports
// features and databases, and no driver; txbox and cli are the two ways to install all of it.
import { readFileSync, readdirSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import path from 'node:path'
import { sqlInStrings } from './sql-in-strings.mjs'
import { wrongWords } from './wrong-words.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/** The public entry, and what the packages of txbox share. */
const CORE = ['@txbox/core', '@txbox/core/internal']

const MAY_IMPORT = {
  core: ['node:crypto', 'node:os', 'node:zlib'],
  inbox: ['node:', ...CORE],
  outbox: ['node:', ...CORE],
  relay: ['node:', ...CORE],
  gc: ['node:', ...CORE],
  consumer: ['node:', ...CORE],
  queue: ['node:', ...CORE],
  versioning: ['node:', ...CORE, 'kysely'],
  sql: ['node:', ...CORE],
  postgres: ['node:', ...CORE, '@txbox/sql'],
  mysql: ['node:', ...CORE, '@txbox/sql'],
  rabbitmq: ['node:', ...CORE, 'amqplib'],
  redis: ['node:', ...CORE],
  // Drivers are handed to the command: it may know their types and nothing else.
  command: ['node:', '@txbox/', 'cli-progress', 'cli-table3', 'commander', 'type mysql2', 'type pg'],
  cli: ['@txbox/command', '@txbox/rabbitmq', 'mysql2', 'pg'],
  txbox: ['node:', '@txbox/'],
}
/** These say nothing about what is inside. */
const VAGUE = /^(utils?|common|helpers?|types?|misc|shared)\.ts$/
const NAME = /^[a-z0-9]+(-[a-z0-9]+)*(\.gen)?\.ts$/

/** These look at the version of Node.js before they import what an old one cannot read, and load drivers on demand. */
const IMPORTS_LATE = new Set([
  'packages/cli/src/main.ts',
  'packages/command/src/start-txbox.ts',
  'packages/txbox/src/main.ts',
])

function isAllowed(allowed, specifier, onlyType) {
  return (
    specifier.startsWith('.') ||
    allowed?.some(
      (prefix) =>
        specifier === prefix ||
        (onlyType && `type ${specifier}` === prefix) ||
        (/[:/]$/.test(prefix) && specifier.startsWith(prefix)),
    )
  )
}

/** SQL may stand in statement files, in the migrations, and where statements of users are recognized but none is sent. */
const MAY_HOLD_SQL = /(?:-statements|migrations\.gen|sql\/src\/statement-effect)\.ts$/

/** The name of a member by which an object of a library is recognized, such as `commit`. */
const NAMED_MEMBER = /(\bhas(?:Function|Object|Boolean|Number)\(\w+, )'\w+'/g

const problems = []
/** The files that each file imports, within its package. */
const imports = new Map()
for (const name of readdirSync(path.join(root, 'packages'))) {
  const folder = path.join(root, 'packages', name, 'src')
  const allowed = MAY_IMPORT[name]
  if (allowed === undefined)
    problems.push(`packages/${name}: say in scripts/check-house.mjs what it may import`)
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue
    const where = `packages/${name}/src/${file}`
    const base = path.basename(file)
    if (VAGUE.test(base) || !NAME.test(base)) {
      problems.push(`${where}: files are kebab-case and named after what they export`)
    }
    const source = readFileSync(path.join(folder, file), 'utf8')
    if (!MAY_HOLD_SQL.test(where)) {
      for (const { line, text } of sqlInStrings(where, source.replaceAll(NAMED_MEMBER, '$1'))) {
        problems.push(`${where}:${line}: SQL belongs in a *-statements.ts file with a golden text: ${text}`)
      }
    }
    for (const [, kind, specifier] of source.matchAll(
      /(?:^|\n)\s*(?:import|export)\b( type\b)?[^'"\n]*(?:\{[^}]*\}[^'"\n]*)?from\s+['"]([^'"]+)['"]/g,
    )) {
      // Imports of types alone are erased. Core has no circle of types either: everything else rests on it.
      if (specifier.startsWith('.') && (kind === undefined || name === 'core')) {
        const imported = path.posix.join(path.posix.dirname(where), specifier)
        imports.set(where, [...(imports.get(where) ?? []), imported])
      }
      if (!isAllowed(allowed, specifier, kind !== undefined))
        problems.push(`${where}: must not import '${specifier}'`)
    }
    for (const [, specifier] of source.matchAll(/\bimport\(\s*['"]([^'"]+)['"]\s*\)/g)) {
      if (!IMPORTS_LATE.has(where) || !isAllowed(allowed, specifier, false))
        problems.push(`${where}: must not import '${specifier}' by the way`)
    }
  }
}
/** Programs that see everything, but are named as the packages' files are. */
for (const folder of ['bench', 'chaos']) {
  for (const file of readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })) {
    const base = path.basename(file)
    if (!file.endsWith('.ts') || (!VAGUE.test(base) && NAME.test(base))) continue
    problems.push(`${folder}/${file}: files are kebab-case and named after what they export`)
  }
}

/** Files whose imports, and theirs in turn, are known to lead in no circle. */
const straight = new Set()
for (const file of imports.keys()) follow(file, [])

function follow(file, way) {
  if (straight.has(file)) return
  if (way.includes(file)) {
    problems.push(`imports in a circle: ${[...way.slice(way.indexOf(file)), file].join(' → ')}`)
    return
  }
  for (const next of imports.get(file) ?? []) follow(next, [...way, file])
  straight.add(file)
}

/** CONTRIBUTING.md quotes wrong words, and the text of released migrations never changes. */
const PROSE = ['README.md', 'docs', 'packages', 'bench', 'chaos', 'examples', 'test', 'scripts'].flatMap(
  (place) =>
    place.endsWith('.md')
      ? [place]
      : readdirSync(path.join(root, place), { recursive: true, encoding: 'utf8' })
          .filter(
            (file) =>
              /\.(ts|mjs|md)$/.test(file) && !/(^|[\\/])(node_modules|dist)[\\/]|\.gen\.ts$/.test(file),
          )
          .map((file) => path.join(place, file)),
)
for (const file of PROSE) {
  for (const { line, word, instead } of wrongWords(file, readFileSync(path.join(root, file), 'utf8'))) {
    problems.push(`${file}:${line}: write ${instead}, not '${word}' (see CONTRIBUTING.md, Plain English)`)
  }
}
for (const problem of problems) console.error(problem)
const generated = spawnSync(
  process.execPath,
  [path.join(root, 'scripts', 'generate-migrations.mjs'), '--check'],
  {
    stdio: 'inherit',
  },
)
process.exitCode = problems.length > 0 || generated.status !== 0 ? 1 : 0

// The house rules that no linter checks: allowed imports, no circular imports of files or folders, names of files, SQL only
// in statement files, an approved text for the SQL of each statement file, plain words, and generated files that are up to date.
// core imports nothing; features import core; databases import core and sql; brokers import core; the command imports
// features and databases, and no driver; txbox and cli are the two ways to install all of it.
import { readFileSync, readdirSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import path from 'node:path'
import { sqlInStrings } from './sql-in-strings.mjs'
import { uncoveredStatements } from './uncovered-statements.mjs'
import { wrongWords } from './wrong-words.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/** The entry for users, the ports of databases, and what only packages of txbox import. */
const CORE = ['@txbox/core', '@txbox/core/ports', '@txbox/core/internal']
/** What the databases share. */
const SQL = ['@txbox/sql/stores', '@txbox/sql/transactions']

const MAY_IMPORT = {
  core: ['node:async_hooks', 'node:crypto', 'node:diagnostics_channel', 'node:os', 'node:zlib'],
  inbox: ['node:', ...CORE],
  outbox: ['node:', ...CORE],
  relay: ['node:', ...CORE],
  gc: ['node:', ...CORE],
  consumer: ['node:', ...CORE],
  queue: ['node:', ...CORE],
  versioning: ['node:', ...CORE, 'kysely'],
  sql: ['node:', ...CORE],
  postgres: ['node:', ...CORE, ...SQL],
  mysql: ['node:', ...CORE, ...SQL],
  rabbitmq: ['node:', ...CORE, 'amqplib'],
  kafka: ['node:', ...CORE, '@platformatic/kafka'],
  redis: ['node:', ...CORE, 'type @redis/client', 'type redis', 'type ioredis'],
  nats: ['node:', ...CORE, '@nats-io/jetstream', '@nats-io/transport-node'],
  sqs: ['node:', ...CORE, '@aws-sdk/client-sns', '@aws-sdk/client-sqs'],
  'pg-boss': ['node:', ...CORE, 'type pg-boss'],
  cloudevents: ['node:', ...CORE],
  prometheus: ['node:', ...CORE],
  opentelemetry: ['node:', ...CORE, '@opentelemetry/api'],
  'idempotency-key': [
    'node:',
    ...CORE,
    'type express',
    'type fastify',
    'type hono',
    '@nestjs/common',
    'rxjs',
  ],
  webhook: ['node:', ...CORE],
  testing: ['node:', ...CORE],
  // The caller passes the drivers to the command, which may only import their types.
  command: ['node:', '@txbox/', 'cli-progress', 'cli-table3', 'commander', 'type mysql2', 'type pg'],
  cli: ['@txbox/command', '@txbox/rabbitmq', 'mysql2', 'pg'],
  txbox: ['node:', '@txbox/'],
}
const IMPORT =
  /(?:^|\n)\s*(?:import|export)\b( type\b)?[^'"\n]*(?:\{[^}]*\}[^'"\n]*)?from\s+['"]([^'"]+)['"]/g
/** Names that say nothing about the content of a file. */
const VAGUE = /^(utils?|common|helpers?|types?|misc|shared)\.ts$/
const NAME = /^[a-z0-9]+(-[a-z0-9]+)*(\.gen)?\.ts$/

/** Files that check the version of Node.js before they import modules that an old one cannot parse, or load drivers on demand. */
const IMPORTS_LATE = new Set([
  'packages/cli/src/main.ts',
  'packages/command/src/start-txbox.ts',
  'packages/sqs/src/connection/load-sdk.ts',
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

/** SQL is allowed in statement files, in migrations, and in code that recognizes statements of users and sends none. */
const MAY_HOLD_SQL = /(?:-statements|migrations\.gen|transactions\/monitors\/statement-effect)\.ts$/

/** The name of a member, such as `commit`, by which an object of a library is recognized, or that a case of a contract needs. */
const NAMED_MEMBER = /(\bhas(?:Function|Object|Boolean|Number)\(\w+, |\bneeds: \[)'\w+'/g

const problems = []
/** The files that each file imports, within its package. A type-only import is erased, but a reader follows it, too. */
const imports = new Map()
/** The same without type-only imports. */
const values = new Map()
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
    imports.set(where, [])
    values.set(where, [])
    if (!MAY_HOLD_SQL.test(where)) {
      for (const { line, text } of sqlInStrings(where, source.replaceAll(NAMED_MEMBER, '$1'))) {
        problems.push(`${where}:${line}: SQL belongs in a *-statements.ts file with a golden text: ${text}`)
      }
    }
    for (const [, kind, specifier] of source.matchAll(IMPORT)) {
      if (specifier.startsWith('.')) {
        const imported = path.posix.join(path.posix.dirname(where), specifier)
        imports.get(where).push(imported)
        if (kind === undefined) values.get(where).push(imported)
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
const programs = new Map()
/** Programs that may import everything, but whose files follow the naming rules of the packages, and have no circles. */
for (const folder of ['bench', 'chaos']) {
  for (const file of readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })) {
    const base = path.basename(file)
    if (!file.endsWith('.ts')) continue
    const where = `${folder}/${file}`
    const imported = [...readFileSync(path.join(root, where), 'utf8').matchAll(IMPORT)]
      .filter(([, , specifier]) => specifier.startsWith('.'))
      .map(([, , specifier]) => path.posix.join(path.posix.dirname(where), specifier))
    programs.set(where, imported)
    if (!VAGUE.test(base) && NAME.test(base)) continue
    problems.push(`${where}: files are kebab-case and named after what they export`)
  }
}

/** A room is a folder of files; a file beside folders is a room of its own. An entry shows the rooms, and is none. */
const floors = new Set([...imports.keys()].map((file) => path.posix.dirname(path.posix.dirname(file))))
const roomOf = (file) => (floors.has(path.posix.dirname(file)) ? file : path.posix.dirname(file))
/** The rooms that each room imports. */
const rooms = new Map()
for (const [file, imported] of imports) {
  if (path.posix.basename(file) === 'index.ts') continue
  const room = roomOf(file)
  const others = imported.map(roomOf).filter((other) => other !== room)
  rooms.set(room, [...(rooms.get(room) ?? []), ...others])
}

refuseCircles(imports)
refuseCircles(programs)
refuseCircles(rooms)

function refuseCircles(graph) {
  /** What is known to lead into no circle that was not reported. */
  const straight = new Set()
  const follow = (from, way) => {
    if (straight.has(from)) return
    if (way.includes(from)) {
      problems.push(`imports in a circle: ${[...way.slice(way.indexOf(from)), from].join(' → ')}`)
      return
    }
    for (const next of graph.get(from) ?? []) follow(next, [...way, from])
    straight.add(from)
  }
  for (const from of graph.keys()) follow(from, [])
}

const TESTS = path.join('test', 'unit')
const golden = readdirSync(path.join(root, TESTS)).filter((file) => /^golden-.*\.test\.ts$/.test(file))
const goldenTests = new Map(
  golden.map((file) => [`test/unit/${file}`, readFileSync(path.join(root, TESTS, file), 'utf8')]),
)
for (const file of uncoveredStatements(values, goldenTests)) {
  problems.push(`${file}: import it in test/unit/golden-*.test.ts, and approve the texts of its statements`)
}

/** CONTRIBUTING.md and the test of wrong words quote wrong words, and the text of released migrations never changes. */
const PROSE = [
  ...['README.md', 'CHANGELOG.md', 'SECURITY.md', '.github', '.changeset', 'docs', 'packages'],
  ...['bench', 'chaos', 'examples', 'test', 'scripts'],
]
  .flatMap((place) =>
    place.endsWith('.md')
      ? [place]
      : readdirSync(path.join(root, place), { recursive: true, encoding: 'utf8' })
          .filter(
            (file) =>
              /\.(ts|mjs|md|ya?ml)$/.test(file) && !/(^|[\\/])(node_modules|dist)[\\/]|\.gen\.ts$/.test(file),
          )
          .map((file) => path.join(place, file)),
  )
  .filter((file) => !file.endsWith('wrong-words.test.ts'))
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

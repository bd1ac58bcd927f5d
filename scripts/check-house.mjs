// The rules of the house that no linter knows: who may import whom, names of files, and generated files up to date.
// core imports nothing; features import core; databases import core and handles; brokers import core.
import { readFileSync, readdirSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import path from 'node:path'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

const MAY_IMPORT = {
  core: ['node:crypto', 'node:zlib'],
  inbox: ['node:', '@txbox/core'],
  outbox: ['node:', '@txbox/core'],
  relay: ['node:', '@txbox/core'],
  gc: ['node:', '@txbox/core'],
  versioning: ['node:', '@txbox/core', 'kysely'],
  handles: ['node:', '@txbox/core'],
  postgres: ['node:', '@txbox/core', '@txbox/handles'],
  mysql: ['node:', '@txbox/core', '@txbox/handles'],
  rabbitmq: ['node:', '@txbox/core', 'amqplib'],
  cli: ['node:', '@txbox/', 'cli-progress', 'cli-table3', 'commander', 'mysql2', 'pg'],
}
/** These say nothing about what is inside. */
const VAGUE = /^(utils?|common|helpers?|types?|misc|shared)\.ts$/
const NAME = /^[a-z0-9]+(-[a-z0-9]+)*(\.gen)?\.ts$/

const problems = []
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
    for (const [, specifier] of source.matchAll(
      /(?:^|\n)\s*(?:import|export)\b[^'"\n]*(?:\{[^}]*\}[^'"\n]*)?from\s+['"]([^'"]+)['"]/g,
    )) {
      const fine =
        specifier.startsWith('.') ||
        allowed?.some(
          (prefix) => specifier === prefix || (/[:/]$/.test(prefix) && specifier.startsWith(prefix)),
        )
      if (!fine) problems.push(`${where}: must not import '${specifier}'`)
    }
    for (const [, specifier] of source.matchAll(/\bimport\(\s*['"]([^'"]+)['"]\s*\)/g)) {
      // The command looks at the version of Node.js before it imports what an old one cannot read.
      const command = /cli[\\/]src[\\/]main\.ts$/.test(where) && specifier.startsWith('.')
      if (!command) problems.push(`${where}: must not import '${specifier}' by the way`)
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
for (const problem of problems) console.error(problem)
const generated = spawnSync(
  process.execPath,
  [path.join(root, 'scripts', 'generate-migrations.mjs'), '--check'],
  {
    stdio: 'inherit',
  },
)
process.exitCode = problems.length > 0 || generated.status !== 0 ? 1 : 0

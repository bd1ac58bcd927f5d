// Writes the SQL files of migrations/<database> into the package of that database, so that the published package
// contains them. `--check` only reports whether the package is up to date.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import path from 'node:path'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

for (const database of readdirSync(path.join(root, 'migrations'))) {
  const folder = path.join(root, 'migrations', database)
  const files = readdirSync(folder)
    .filter((file) => /^\d{4}_[a-z_]+\.sql$/.test(file))
    .sort()
  const entries = files.map((file) => {
    const sql = readFileSync(path.join(folder, file), 'utf8').replaceAll(/[\\`]|\$\{/g, '\\$&')
    return `  {\n    number: ${Number(file.slice(0, 4))},\n    name: '${file.slice(0, -4)}',\n    sql: \`${sql}\`,\n  },\n`
  })
  const text = [
    `// Made from migrations/${database} by scripts/generate-migrations.mjs. Do not edit.\n\n`,
    '/** Every migration, oldest first, with the default names. */\n',
    `export const MIGRATIONS: readonly { readonly number: number; readonly name: string; readonly sql: string }[] = [\n`,
    ...entries,
    ']\n',
  ].join('')
  const target = path.join(root, 'packages', database, 'src', 'tables', 'migrations.gen.ts')
  if (process.argv.includes('--check')) {
    if (readFileSync(target, 'utf8') !== text) {
      console.error(
        `${path.relative(root, target)} is out of date: run 'node scripts/generate-migrations.mjs'.`,
      )
      process.exitCode = 1
    }
  } else {
    writeFileSync(target, text)
  }
}

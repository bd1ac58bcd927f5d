// Would a user's installation of each package work? publint reads what would be published, attw resolves its types in
// every way that TypeScript knows.
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import path from 'node:path'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
let failed = false

function run(folder, command, ...args) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: folder, encoding: 'utf8' })
  if (status === 0) return
  failed = true
  console.error(`${path.relative(root, folder)}: ${command} ${args.join(' ')}\n${stdout}${stderr}`)
}

for (const name of readdirSync(path.join(root, 'packages'))) {
  const folder = path.join(root, 'packages', name)
  run(folder, 'publint', '--strict', '--pack', 'npm')
  // The command line has nothing to import.
  if (name !== 'cli') run(folder, 'attw', '--pack', '.', '--profile', 'esm-only', '--no-emoji', '--no-color')
}
process.exitCode = failed ? 1 : 0

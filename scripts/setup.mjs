// Everything that `npm test` and `npm run demo` need: the pinned pnpm, Node and dependencies, and a build.
// Plain JavaScript for Node 20, because this script installs the pinned Node.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, statSync, utimesSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import path from 'node:path'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const bin = path.join(root, 'node_modules', '.bin')
const { packageManager } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))

function run(title, command, args) {
  console.log(`setup: ${title}`)
  const { status, error, stdout, stderr } = spawnSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    shell: process.platform === 'win32',
    env: { ...process.env, PATH: `${bin}${path.delimiter}${process.env.PATH}`, CI: 'true' },
  })
  if (status === 0) return
  console.error(`${stdout ?? ''}${stderr ?? ''}${error ? `${error.message}\n` : ''}`)
  console.error(`setup: '${command} ${args.join(' ')}' failed; its output is above.`)
  process.exit(1)
}

/** pnpm writes this file at the end of every installation. */
const installed = path.join(root, 'node_modules', '.modules.yaml')
const changed = (file) =>
  !existsSync(installed) || statSync(path.join(root, file)).mtimeMs > statSync(installed).mtimeMs

if (changed('pnpm-lock.yaml') || changed('package.json')) {
  run('installing the pinned Node and dependencies', 'npx', [
    '--yes',
    packageManager,
    'install',
    '--frozen-lockfile',
  ])
  // pnpm leaves the file as it is when there was nothing to do.
  utimesSync(installed, new Date(), new Date())
}
run('building', 'tsc', ['-b'])

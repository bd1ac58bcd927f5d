// Checks that each package would work after its installation: publint reads the files that would be published, and attw
// resolves the types in every way that TypeScript supports. Checks also what npm shows of each package: one version, one
// repository, the license, and a README whose links work outside the repository.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import path from 'node:path'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const own = readManifest(root)
const website = own.repository.url.replace(/^git\+|\.git$/g, '')
const problems = []

function readManifest(folder) {
  return JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'))
}

function run(folder, command, ...args) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: folder, encoding: 'utf8' })
  if (status === 0) return
  problems.push(`${path.relative(root, folder)}: ${command} ${args.join(' ')}\n${stdout}${stderr}`)
}

function checkManifest(name, folder) {
  const manifest = readManifest(folder)
  const expected = {
    name: name === 'txbox' ? name : `@txbox/${name}`,
    version: own.version,
    license: own.license,
    repository: { ...own.repository, directory: `packages/${name}` },
    homepage: `${website}/tree/main/packages/${name}#readme`,
    bugs: { url: `${website}/issues` },
  }
  for (const [field, value] of Object.entries(expected)) {
    if (JSON.stringify(manifest[field]) === JSON.stringify(value)) continue
    problems.push(`packages/${name}/package.json: "${field}" must be ${JSON.stringify(value)}`)
  }
  for (const field of ['description', 'keywords', 'files', 'engines']) {
    if (manifest[field] === undefined) problems.push(`packages/${name}/package.json: no "${field}"`)
  }
  for (const [dependency, range] of Object.entries(manifest.dependencies ?? {})) {
    if (/^(@txbox\/|txbox$)/.test(dependency) && range !== 'workspace:*')
      problems.push(`packages/${name}/package.json: ${dependency} must be 'workspace:*', the same version`)
  }
}

function checkFiles(name, folder) {
  const licence = path.join(folder, 'LICENSE')
  if (
    !existsSync(licence) ||
    readFileSync(licence, 'utf8') !== readFileSync(path.join(root, 'LICENSE'), 'utf8')
  )
    problems.push(`packages/${name}/LICENSE: must be a copy of the LICENSE of the project`)
  const readme = readFileSync(path.join(folder, 'README.md'), 'utf8')
  for (const [, target] of readme.matchAll(/\]\(([^)\s]+)\)/g)) {
    if (!/^(https:|#)/.test(target))
      problems.push(`packages/${name}/README.md: '${target}' leads nowhere on npm; write the whole address`)
    const [file] = target.startsWith(`${website}/blob/main/`)
      ? target.slice(`${website}/blob/main/`.length).split('#')
      : []
    if (file !== undefined && !existsSync(path.join(root, file)))
      problems.push(`packages/${name}/README.md: there is no ${file}`)
  }
}

for (const name of readdirSync(path.join(root, 'packages'))) {
  const folder = path.join(root, 'packages', name)
  checkManifest(name, folder)
  checkFiles(name, folder)
  run(folder, 'publint', '--strict', '--pack', 'npm')
  // The package of the command has no exports.
  if (name !== 'cli') run(folder, 'attw', '--pack', '.', '--profile', 'esm-only', '--no-emoji', '--no-color')
}
for (const problem of problems) console.error(problem)
process.exitCode = problems.length > 0 ? 1 : 0

import { execFile } from 'node:child_process'
import { cp, mkdir, readdir, rename, rm, stat, symlink } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

const ROOT = path.join(import.meta.dirname, '..', '..', '..')
const CACHE = path.join(ROOT, 'node_modules', '.cache', 'releases')

/**
 * Builds the packages as they were before the newest migration was added, once for each such state.
 *
 * @returns the folder, which contains `packages/<name>/dist`.
 */
export async function releaseBefore(): Promise<string> {
  const commit = await commitBefore()
  const folder = path.join(CACHE, commit)
  if (await exists(folder)) return folder
  // Several projects may build it at once: the first to finish wins.
  const building = path.join(CACHE, `${commit}-${process.pid}`)
  await mkdir(building, { recursive: true })
  try {
    const sources = ['packages', 'tsconfig.json', 'tsconfig.base.json', 'package.json']
    await run('sh', ['-c', `git archive ${commit} ${sources.join(' ')} | tar -x -C '${building}'`], {
      cwd: ROOT,
    })
    for (const name of await readdir(path.join(building, 'packages'))) {
      // The links between the packages are relative, so the copies lead to the packages beside them.
      const modules = path.join('packages', name, 'node_modules')
      if (await exists(path.join(ROOT, modules)))
        await cp(path.join(ROOT, modules), path.join(building, modules), {
          recursive: true,
          verbatimSymlinks: true,
        })
    }
    await symlink(path.join(ROOT, 'node_modules'), path.join(building, 'node_modules'))
    await run(process.execPath, [path.join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc'), '-b'], {
      cwd: building,
    })
    await rename(building, folder)
  } catch (error) {
    if (!(await exists(folder))) throw error
  } finally {
    await rm(building, { recursive: true, force: true })
  }
  return folder
}

/** @throws when the history does not contain the commit, as in a shallow clone. */
async function commitBefore(): Promise<string> {
  const migrations = (await readdir(path.join(ROOT, 'migrations', 'postgres'))).toSorted()
  const newest = `migrations/postgres/${migrations.at(-1)!}`
  const added = ['log', '--diff-filter=A', '-1', '--format=%H', '--', newest]
  const { stdout } = await run('git', added, { cwd: ROOT })
  const commit = stdout.trim()
  if (commit === '')
    throw new Error(`The history does not show when ${newest} was added: fetch the whole history.`)
  return (await run('git', ['rev-parse', `${commit}~1`], { cwd: ROOT })).stdout.trim()
}

async function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  )
}

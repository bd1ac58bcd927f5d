import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * Imports a package that the user has installed: from the project in the working directory, or, when the command is
 * started elsewhere, from the project in which txbox itself is installed.
 *
 * @throws {Error} when neither has the package, or it lacks one that it needs; the message names the command that installs
 *   them.
 */
export async function importFromProject(name: string, install: string, purpose: string): Promise<unknown> {
  const project = process.cwd()
  const file = findFrom(path.join(project, path.sep), name) ?? findFrom(import.meta.url, name)
  if (file === undefined) {
    throw new Error(`${name} is not installed in ${project}, and is needed ${purpose}: run '${install}'.`)
  }
  const module = await imported(file, (missing) => {
    return `${name} needs ${missing}, which is not installed in ${project}, and is needed ${purpose}: run '${install}'.`
  })
  // A CommonJS package is the default export of its module.
  return 'default' in module ? module.default : module
}

async function imported(file: string, lacking: (missing: string) => string): Promise<object> {
  try {
    return (await import(pathToFileURL(file).href)) as object
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const [, missing] = /^Cannot find (?:package|module) '([^'/.][^']*)'/.exec(message) ?? []
    if (missing === undefined || (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND')) throw error
    throw new Error(lacking(missing), { cause: error })
  }
}

function findFrom(place: string, name: string): string | undefined {
  try {
    return createRequire(place).resolve(name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'MODULE_NOT_FOUND') return undefined
    throw error
  }
}

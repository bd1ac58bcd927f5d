import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * Imports a package that the user has installed: from the project in the working directory, or, when the command is
 * started elsewhere, from the project in which txbox itself is installed.
 *
 * @throws {Error} when neither has the package; the message names the command that installs it.
 */
export async function importFromProject(name: string, install: string, purpose: string): Promise<unknown> {
  const project = process.cwd()
  const file = findFrom(path.join(project, path.sep), name) ?? findFrom(import.meta.url, name)
  if (file === undefined) {
    throw new Error(`${name} is not installed in ${project}, and is needed ${purpose}: run '${install}'.`)
  }
  const module = (await import(pathToFileURL(file).href)) as object
  // A CommonJS package is the default export of its module.
  return 'default' in module ? module.default : module
}

function findFrom(place: string, name: string): string | undefined {
  try {
    return createRequire(place).resolve(name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'MODULE_NOT_FOUND') return undefined
    throw error
  }
}

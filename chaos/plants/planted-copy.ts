import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'
import type { Plant, Replacement } from './plant.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')
const PACKAGES = path.join(ROOT, 'packages')
/** The dependencies of the packages. */
const LINKED = ['amqplib', 'kysely', 'mysql2', 'pg']

/**
 * A copy of the built packages with the bug in it, in a temporary folder.
 *
 * @returns `undefined` for a plant without a replacement.
 * @throws {Error} if a text that is to be replaced does not occur exactly once.
 */
export function plantedPackages(plant: Plant): { readonly folder: string; remove(): void } | undefined {
  if (plant.replacements.length === 0) return undefined
  const folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-plant-'))
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  try {
    const modules = path.join(folder, 'node_modules')
    mkdirSync(path.join(modules, '@txbox'), { recursive: true })
    for (const name of readdirSync(PACKAGES)) {
      if (!existsSync(path.join(PACKAGES, name, 'package.json'))) continue
      const to = path.join(modules, '@txbox', name)
      cpSync(path.join(PACKAGES, name, 'package.json'), path.join(to, 'package.json'))
      cpSync(path.join(PACKAGES, name, 'dist'), path.join(to, 'dist'), { recursive: true })
    }
    const { resolve } = createRequire(import.meta.url)
    for (const name of LINKED) symlinkSync(packageFolder(resolve(name), name), path.join(modules, name))
    for (const replacement of plant.replacements) {
      const file = builtFile(path.join(modules, '@txbox'), plant, replacement)
      writeFileSync(file, replaced(plant, replacement, readFileSync(file, 'utf8')))
    }
  } catch (error) {
    remove()
    throw error
  }
  return { folder, remove }
}

/** @throws {Error} when the text is not there exactly once. */
export function replaced(
  plant: Plant,
  { package: name, file, find, replace }: Replacement,
  text: string,
): string {
  const parts = text.split(find)
  if (parts.length === 2) return parts.join(replace)
  throw new Error(
    `The plant '${plant.name}' looks for a text in ${name}/dist/${file} that is there ${parts.length - 1} times, not once. ` +
      'Point the plant in chaos/plants/plants.ts at the code of now.',
  )
}

/** Wherever the file lies in `dist`. A file without its source is left from an earlier build: modules are moved. */
export function builtFile(folder: string, plant: Plant, { package: name, file }: Replacement): string {
  const dist = path.join(folder, name, 'dist')
  const found = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter(
    (one) =>
      path.basename(one) === file &&
      existsSync(path.join(PACKAGES, name, 'src', one.replace(/\.js$/, '.ts'))),
  )
  if (found.length === 1) return path.join(dist, found[0]!)
  throw new Error(
    `The plant '${plant.name}' is in ${name}/dist/${file}, of which there are ${found.length}. ` +
      'Build the packages, or point the plant in chaos/plants/plants.ts at the code of now.',
  )
}

/** The folder of a package, by a file in it. */
function packageFolder(entry: string, name: string): string {
  const inside = path.join('node_modules', name)
  const at = entry.lastIndexOf(inside + path.sep)
  return realpathSync(entry.slice(0, at + inside.length))
}

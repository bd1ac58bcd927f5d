import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const EXPORTS = /export (?:type )?\{([^}]*)\} from ['"]([^'"]+)['"]/g

/** The names that a package exports, with the file that declares each, as its published declarations say. */
function exportsOf(entry: URL): Map<string, URL> {
  const files = new Map<string, URL>()
  for (const [, names, from] of readFileSync(entry, 'utf8').matchAll(EXPORTS)) {
    const file = from!.startsWith('.') ? new URL(from!.replace(/\.[jt]s$/, '.d.ts'), entry) : undefined
    for (const name of names!.split(',').map((each) => each.replace(/\btype\b/, '').trim())) {
      const declared = file ?? (from === '@txbox/core' ? core.get(name) : undefined)
      if (declared !== undefined) files.set(name, declared)
    }
  }
  return files
}

const entryOf = (name: string): URL =>
  new URL(import.meta.resolve(`@txbox/${name}`).replace(/\.js$/, '.d.ts'))
const core = new Map<string, URL>()
for (const [name, file] of exportsOf(entryOf('core'))) core.set(name, file)

const PACKAGES =
  'consumer gc idempotency-key inbox mysql outbox postgres queue rabbitmq redis relay versioning'.split(' ')

test.for(PACKAGES)('@txbox/%s exports the errors that its documentation promises', (name) => {
  const exported = exportsOf(entryOf(name))
  // Every feature takes a database, but only a database package makes one.
  if (name !== 'postgres' && name !== 'mysql') exported.delete('ConnectedDatabase')
  // A port promises what those who implement it throw.
  const files = [...new Set(exported.values())].filter(({ pathname }) => !pathname.includes('/dist/ports/'))
  const promised = files.flatMap((file) =>
    [...readFileSync(fileURLToPath(file), 'utf8').matchAll(/@throws \{([^}]*)\}/g)].flatMap(
      ([, types]) => types!.match(/\w+/g) ?? [],
    ),
  )
  expect(promised.length).toBeGreaterThan(0)
  const missing = new Set(promised.filter((error) => !exported.has(error) && !(error in globalThis)))
  expect([...missing]).toEqual([])
  // The package takes a transaction.
  if (!exported.has('UnsupportedTransactionError')) return
  expect([...exported.keys()]).toEqual(expect.arrayContaining(['sqlTransaction', 'defineLibrary']))
})

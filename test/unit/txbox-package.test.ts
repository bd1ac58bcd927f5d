import { expect, test } from 'vitest'

const ALIASES: [string, string[]][] = [
  ['txbox', ['@txbox/inbox', '@txbox/outbox', '@txbox/relay', '@txbox/gc', '@txbox/versioning/sql']],
  ['txbox/postgres', ['@txbox/postgres']],
  ['txbox/mysql', ['@txbox/mysql']],
  ['txbox/versioning', ['@txbox/versioning']],
  ['txbox/consumer', ['@txbox/consumer']],
  ['txbox/queue', ['@txbox/queue']],
  ['txbox/redis', ['@txbox/redis']],
]

/** Names of a package that has an entry of its own. */
const ALSO: Readonly<Record<string, readonly [string, readonly string[]]>> = {
  txbox: ['@txbox/consumer', ['atLeastOnce', 'createLocalConsumer']],
}

test.for(ALIASES)('%s has every name of %j, and the same objects', async ([short, packages]) => {
  const expected: Record<string, unknown> = {}
  for (const name of packages) Object.assign(expected, (await import(name)) as object)
  const [also, names] = ALSO[short] ?? [short, []]
  const others = (await import(also)) as Readonly<Record<string, unknown>>
  for (const name of names) expected[name] = others[name]
  expect({ ...((await import(short)) as object) }).toEqual(expected)
  for (const [name, value] of Object.entries((await import(short)) as object)) {
    expect(value, name).toBe(expected[name])
  }
})

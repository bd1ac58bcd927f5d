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

/** What no other package has. */
const OWN: Readonly<Record<string, readonly string[]>> = { txbox: ['StartError', 'createTxbox'] }

/** Names of a package that has an entry of its own. */
const ALSO: Readonly<Record<string, readonly [string, readonly string[]]>> = {
  txbox: ['@txbox/consumer', ['atLeastOnce', 'createLocalConsumer', 'sqlDedup']],
}

test.for(ALIASES)('%s has every name of %j, and the same objects', async ([short, packages]) => {
  const expected: Record<string, unknown> = {}
  for (const name of packages) Object.assign(expected, (await import(name)) as object)
  const [also, names] = ALSO[short] ?? [short, []]
  const others = (await import(also)) as Readonly<Record<string, unknown>>
  for (const name of names) expected[name] = others[name]
  const exported = { ...((await import(short)) as Record<string, unknown>) }
  for (const name of OWN[short] ?? []) {
    expect(exported[name], name).toBeTypeOf('function')
    delete exported[name]
  }
  expect(exported).toEqual(expected)
  for (const [name, value] of Object.entries(exported)) {
    expect(value, name).toBe(expected[name])
  }
})

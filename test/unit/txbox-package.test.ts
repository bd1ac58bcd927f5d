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

test.for(ALIASES)('%s has every name of %j, and the same objects', async ([short, packages]) => {
  const expected: Record<string, unknown> = {}
  for (const name of packages) Object.assign(expected, (await import(name)) as object)
  expect({ ...((await import(short)) as object) }).toEqual(expected)
  for (const [name, value] of Object.entries((await import(short)) as object)) {
    expect(value, name).toBe(expected[name])
  }
})

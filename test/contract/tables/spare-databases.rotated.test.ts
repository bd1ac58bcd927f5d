import { describe, expect, test } from 'vitest'
import { databaseUrl } from '../../support/engines/server-outbox-target.ts'
import { useTarget, type Target } from '../../support/engines/target.ts'

const prefix = (target: Target): string => target.outboxTable.replace(/outbox$/, '')

/** What a file may leave behind besides rows of its own. */
const CHANGES: Record<string, (target: Target) => Promise<unknown>> = {
  'a column': (target) => target.sql('alter table counters add column more integer'),
  'an index': (target) => target.sql('create index by_number on counters (n)'),
  'a row of a migration': (target) => target.sql(`delete from ${prefix(target)}collections`),
  'a revision': (target) => target.pretendRevision('later'),
}

let left = ''

describe('a file that has written rows', () => {
  const target = useTarget()

  test('leaves its database, and a table of its own', async () => {
    left = await databaseUrl(target)
    await target.sql('create table own (n integer)')
    for (const name of ['a', 'b']) await target.sql('insert into effects (name) values (?)', [name])
    await target.sql(`insert into ${prefix(target)}leases (name) values (?)`, ['outbox/03'])
  })
})

for (const [what, change] of Object.entries(CHANGES)) {
  describe(`the next file, which changes ${what}`, () => {
    const target = useTarget()

    test('gets the tables as the migration has made them', async () => {
      // The file before the first change has changed rows alone.
      expect((await databaseUrl(target)) === left).toBe(what === 'a column')
      left = await databaseUrl(target)
      await target.sql('insert into effects (name) values (?)', ['c'])
      const [effect, ...others] = await target.sql('select seq, name from effects')
      expect([Number(effect?.['seq']), effect?.['name'], others]).toEqual([1, 'c', []])
      expect(await target.sql(`select name from ${prefix(target)}leases`)).toEqual([])
      expect((await target.sql(`select id from ${prefix(target)}collections`)).length).toBe(1)
      await expect(target.sql('select n from own')).rejects.toThrow(/own/)
      await target.sql('insert into counters (name, n) values (?, ?)', ['c', 1])
      await change(target)
    })
  })
}

describe('the file after a change', () => {
  const target = useTarget()

  test('gets another database', async () => {
    expect(await databaseUrl(target)).not.toBe(left)
    expect(await target.sql('select * from counters')).toEqual([])
  })
})

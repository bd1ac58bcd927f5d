import { createPool } from 'mysql2/promise'
import { expect, onTestFinished, test } from 'vitest'
import type { ConnectedPorts } from '@txbox/core/ports'
import { connectedPortsOf } from '@txbox/core/internal'
import { mysql } from '@txbox/mysql'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'

const target = useTarget()

/** Statements on one connection, which every transaction of the database gets as well. */
interface OneConnection {
  readonly ports: ConnectedPorts
  readonly query: (sql: string) => Promise<readonly Record<string, unknown>[]>
}

function open(url: string): OneConnection {
  const pool = createPool({ uri: url, connectionLimit: 1 })
  onTestFinished(() => pool.end())
  return {
    ports: connectedPortsOf('test', mysql({ db: pool })),
    query: async (sql) => (await pool.query(sql))[0] as Record<string, unknown>[],
  }
}

const WAIT = 'select cast(@@session.wait_timeout as char) as seconds, cast(connection_id() as char) as id'

test('L4 the server ends the transaction of a handler that is frozen, and the time that it allows is for this transaction only', async () => {
  const { ports, query } = open(await databaseUrl(target))
  await target.sql("insert into effects (name) values ('held')")
  const [before] = await query(WAIT)
  const options = { isolation: 'read committed', idleLimitMs: 30_000 } as const
  await ports.transact(async (tx) => {
    const [during] = await target.exec(tx as never, WAIT)
    expect(String(during?.['seconds'])).toBe('30')
  }, options)
  expect(await query(WAIT)).toEqual([before])
  const failing = ports.transact(async () => Promise.reject(new Error('mine')), options)
  await expect(failing).rejects.toThrow('mine')
  expect(await query(WAIT)).toEqual([before])

  let isEnded = false
  const frozen = ports.transact(
    async (tx) => {
      await target.exec(tx as never, "select 1 from effects where name = 'held' for update")
      const isFree = async (): Promise<boolean> =>
        (await target.sql("select 1 from effects where name = 'held' for update skip locked")).length > 0
      expect(await isFree()).toBe(false)
      await until(isFree, () => 'the server has not ended the transaction')
      isEnded = true
    },
    { ...options, idleLimitMs: 1000 },
  )
  await expect(frozen).rejects.toThrow()
  expect(isEnded).toBe(true)
  const [after] = await query(WAIT)
  expect(after?.['seconds']).toBe(before?.['seconds'])
  expect(after?.['id']).not.toBe(before?.['id'])
})

test('the level of a transaction with a limit is its own, and not that of the connection', async () => {
  const { ports, query } = open(await databaseUrl(target))
  const counted = async (isolation: 'read committed' | 'repeatable read' | undefined): Promise<unknown[]> =>
    ports.transact(
      async (tx) => {
        const count = async (): Promise<unknown> =>
          (
            await target.exec(
              tx as never,
              "select cast(count(*) as char) as n from effects where name = 'level'",
            )
          )[0]?.['n']
        await target.sql("delete from effects where name = 'level'")
        const first = await count()
        await target.sql("insert into effects (name) values ('level')")
        return [first, await count()].map(String)
      },
      { isolation, idleLimitMs: 5000 },
    )
  expect(await counted('read committed')).toEqual(['0', '1'])
  expect(await counted('repeatable read')).toEqual(['0', '0'])
  expect(await counted(undefined)).toEqual(['0', '0'])
  expect(await counted('read committed')).toEqual(['0', '1'])
  await query('set autocommit = 0')
  await query('select 1 from effects')
  expect(await counted('read committed')).toEqual(['0', '1'])
})

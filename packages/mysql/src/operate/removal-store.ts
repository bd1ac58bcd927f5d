/*
 * MySQL and MariaDB find messages without locks, lock them by their keys, delete them and count them; PostgreSQL does this in one
 * statement.
 */
import type { SubscriptionRemovalStore } from '@txbox/core/ports'
import { SqlRemovalStore, type RemovalPage, type RemovedMessages, type Row } from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import { PRIVILEGE_MISSING, hasNumber } from '../connection/errors.ts'
import type { Tables } from '../connection/identifiers.ts'
import { fill, type Value } from '../connection/literals.ts'
import { runBounded, runTogether, type MysqlStatementRoot } from '../connection/run-alone.ts'
import { byEngine } from '../connection/server.ts'
import { removalStatements } from './removal-statements.ts'

const DOING = 'ending a subscription'

type Sql = ReturnType<typeof removalStatements>

export function removalStore(tables: Tables, source: MysqlStatementRoot): SubscriptionRemovalStore {
  const statements = byEngine(removalStatements, tables)
  const sqlOf = async (): Promise<Sql> => statements[(await source.server()).engine]
  const first = async (text: string, values: readonly Value[]): Promise<Row | undefined> =>
    (await runBounded(source, DOING, text, values)).rows[0]
  return new SqlRemovalStore({
    async count({ consumer, type }, limit) {
      const sql = await sqlOf()
      const conditions = conditionsOf(sql, type)
      const name = { utf8: consumer }
      const count = async (text: string): Promise<number> =>
        columns.number(await first(text, [name, limit]), 'n')
      const waiting = await count(sql.countWaiting(conditions))
      const parked = await count(sql.countParked(conditions))
      const dead = await count(sql.countDead(conditions))
      const subscribed = await first(sql.subscribed(conditions), [name])
      return {
        subscribed: columns.flag(subscribed, 'subscribed'),
        waiting: Math.min(limit, waiting + parked),
        dead,
      }
    },
    async end({ consumer, type }, by) {
      const sql = await sqlOf()
      const name = { utf8: consumer }
      return runTogether(source, DOING, async (run) => {
        const { rows } = await run(sql.findSubscriptions(conditionsOf(sql, type)), [name])
        const types = JSON.stringify(rows.map((row) => columns.text(row, 'type')))
        if (rows.length > 0) await run(sql.end, [types, name])
        await run(sql.record, [name, type === undefined ? null : { utf8: type }, by])
        return columns.text((await run(sql.recorded, [])).rows[0], 'number')
      })
    },
    async readers() {
      try {
        const { rows } = await runBounded(source, DOING, (await sqlOf()).readers, [])
        return rows.map((row) => columns.text(row, 'id'))
      } catch (error) {
        if (hasNumber(error, PRIVILEGE_MISSING)) return undefined
        throw error
      }
    },
    async discard(from, of, record, after, limit) {
      const sql = await sqlOf()
      const { find, lock, remove } = pageOf(sql, from, of, after, limit)
      return runTogether(source, DOING, async (run): Promise<RemovalPage> => {
        const { rows: found } = await run(...find)
        if (found.length === 0) return { removed: 0, next: undefined }
        const { rows: locked } = await run(...lock(found))
        if (locked.length > 0) {
          await run(...remove(locked))
          await run(sql.count, [locked.length, BigInt(record)])
        }
        return { removed: locked.length, next: found.length < limit ? undefined : keyOf(found.at(-1)!) }
      })
    },
  })
}

type Statement = readonly [text: string, values: readonly Value[]]

/** The three statements that find, lock and delete a page. */
function pageOf(
  sql: Sql,
  from: 'waiting' | 'parked',
  { consumer, type }: RemovedMessages,
  after: readonly string[] | undefined,
  limit: number,
): {
  readonly find: Statement
  readonly lock: (rows: readonly Row[]) => Statement
  readonly remove: (rows: readonly Row[]) => Statement
} {
  const name = { utf8: consumer }
  const conditions = conditionsOf(sql, type)
  const keys = (rows: readonly Row[]): string => JSON.stringify(rows.map(keyOf))
  if (from === 'parked') {
    const [place = '0'] = after ?? []
    return {
      find: [sql.findParked(conditions), [name, BigInt(place), limit]],
      lock: (rows) => [sql.lockParked, [keys(rows)]],
      remove: (rows) => [sql.discardParked, [keys(rows)]],
    }
  }
  const [shard = '0', seq = '0'] = after ?? []
  return {
    find: [sql.findWaiting(conditions), [name, Number(shard), Number(shard), BigInt(seq), limit]],
    lock: (rows) => [sql.lockWaiting, [keys(rows), name]],
    remove: (rows) => [sql.discardWaiting, [keys(rows), name]],
  }
}

/** Shard and number, or the place. */
function keyOf(row: Row): readonly string[] {
  return columns.has(row, 'place')
    ? [columns.text(row, 'place')]
    : [columns.text(row, 'shard'), columns.text(row, 'seq')]
}

function conditionsOf(sql: Sql, type: string | undefined): readonly string[] {
  return type === undefined ? [] : [fill(sql.ofType, [{ utf8: type }])]
}

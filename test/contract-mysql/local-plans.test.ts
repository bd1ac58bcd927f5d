import { createPool, type Pool } from 'mysql2/promise'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { tablesOf } from '../../packages/mysql/src/connection/identifiers.ts'
import { fill } from '../../packages/mysql/src/connection/literals.ts'
import { localParkedStatements } from '../../packages/mysql/src/local/local-parked-statements.ts'
import { localStatements } from '../../packages/mysql/src/local/local-statements.ts'
import { rowsExamined } from '../support/engines/mysql-reads.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const engine = target.engine as 'mysql' | 'mariadb'
const waiting = localStatements(tablesOf('test', 'txbox_'), engine)
const parked = localParkedStatements(tablesOf('test', 'txbox_'), engine)
const ROWS = 50_000
const AT = [Buffer.from('billing'), 3] as const
const KEY = Buffer.from('key-0')
const FENCE = [Buffer.from('local/billing/3'), Buffer.from('me'), 7n] as const
let pool: Pool

beforeAll(async () => {
  pool = createPool({ uri: outbox.url(), connectionLimit: 1 })
})
afterAll(() => pool.end())

/** One key of one shard has nearly all messages; other keys, shards and consumers have a few. */
async function fillTables(): Promise<void> {
  for (let from = 1; from <= ROWS; from += 10_000) {
    const rows = Array.from({ length: 10_000 }, (_, index) => {
      const n = from + index
      const key = n % 10_000 === 7 ? 'key-1' : 'key-0'
      const due = n === 1 || n === 7 ? 'utc_timestamp(6)' : 'null'
      const columns = `'m${n}', '${key}', 't', 't', '{}', ''`
      return {
        waiting: `(utc_timestamp(6), 3, 'billing', ${columns})`,
        parked: `(utc_timestamp(6), ${due}, 3, 'billing', '${key}', ${columns})`,
      }
    })
    const columns = 'id, `key`, type, content_type, headers, payload'
    await pool.query(
      `insert into txbox_local_outbox (created_at, shard, consumer, ${columns}) values ${rows.map((row) => row.waiting).join()}`,
    )
    await pool.query(
      `insert into txbox_local_parked (created_at, due_at, shard, consumer, order_key, ${columns}) values ${rows.map((row) => row.parked).join()}`,
    )
  }
  await pool.query(
    "insert into txbox_leases (name, owner, term, expires_at) values ('local/billing/3', 'me', 7, utc_timestamp(6) + interval 1 hour)",
  )
}

/** The rows of a table by number and stamp. */
async function named(table: 'outbox' | 'parked'): Promise<readonly [string, string][]> {
  const number = table === 'outbox' ? 'seq' : 'place'
  const [rows] = await pool.query(
    `select cast(r.${number} as char) as n, cast(timestampdiff(microsecond, '1970-01-01', r.created_at) as char) as stamp
     from txbox_local_${table} as r where r.\`key\` = 'key-0' order by r.${number} limit 1000`,
  )
  return (rows as { n: string; stamp: string }[]).map(({ n, stamp }) => [n, stamp])
}

test('U4 L2 a key with very many messages does not slow down statements on other keys, shards and consumers', async () => {
  await fillTables()
  for (const analyzed of [false, true]) {
    // The server does this by itself after some seconds.
    if (analyzed) await pool.query('analyze table txbox_local_outbox, txbox_local_parked')
    const [rows, places] = [await named('outbox'), await named('parked')]
    const list = (numbers: readonly (readonly [string, string])[]): string =>
      `[${numbers.map((pair) => `[${pair.join()}]`).join()}]`
    const single = (pair: readonly [string, string]): bigint[] => pair.map(BigInt)
    const asked = Array.from({ length: 320 }, (_, n) => [n % 2 === 0 ? 'billing' : `consumer-${n}`, n % 16])
    const verdicts = (numbers: readonly (readonly [string, string])[]): string => {
      const rest = '"attempts":1,"dead":0,"suspect":0,"unhandled":0,"retry_us":1000,"error":"no"'
      return `[${numbers.map(([number, stamp]) => `{"number":${number},"stamp":${stamp},${rest}}`).join()}]`
    }
    const all: Record<string, readonly [statement: string, most: number]> = {
      'looks for work in 320 shards': [fill(waiting.work, [[0], '', JSON.stringify(asked)]), 2200],
      reads: [fill(waiting.read, [1000, ...AT, ...AT, ...AT, 100]), 350],
      'locks one': [fill(waiting.lockOne, [...AT, ...single(rows[900]!), ...FENCE]), 10],
      'locks ten': [fill(waiting.lock, [list(rows.slice(900, 910)), ...AT, ...FENCE]), 60],
      'removes one': [fill(waiting.removeOne, [...AT, ...single(rows[900]!)]), 10],
      'removes ten': [fill(waiting.remove, [list(rows.slice(900, 910)), ...AT]), 80],
      'locks what it settles': [fill(waiting.lockListed, [list(rows.slice(900, 910)), ...AT]), 60],
      'parks ten': [fill(waiting.park, [verdicts(rows.slice(900, 910)), ...AT]), 120],
      'finds what is due': [fill(parked.due, [...AT, ...AT, ...AT, 100]), 20],
      'goes on in a key': [
        fill(parked.readOnward, [1000, ...AT, KEY, single(places[500]!)[0]!, ...single(places[500]!), 100]),
        200,
      ],
      'finds who is next': [fill(parked.next, [...AT, KEY]), 20],
      'heals keys': [fill(parked.heads, [...AT, Buffer.alloc(0), 10_000]), 60],
      'finds suspects': [fill(parked.findSuspect, [...AT, ...AT]), 20],
      'finds whether a key is blocked': [fill(parked.blocked, [0, ...AT, KEY]), 20],
      'looks at the first messages of a key': [fill(parked.ofKey, [...AT, KEY, 100]), 120],
      'locks one that is parked': [fill(parked.lockOne, [...single(places[900]!), ...AT, ...FENCE]), 10],
      'removes one that is parked': [fill(parked.removeOne, [...single(places[900]!), ...AT]), 10],
      'keeps ten': [fill(parked.keep, [verdicts(places.slice(900, 910))]), 60],
      'finds what had no handler': [fill(parked.unhandled, [AT[0], 0n, [Buffer.from('t')], 1000]), 20],
    }
    for (const [what, [statement, most]] of Object.entries(all)) {
      // Only with statistics does the server jump from key to key.
      if (what === 'heals keys' && !analyzed) continue
      expect(
        await rowsExamined(pool, statement),
        `${what}, ${analyzed ? 'analyzed' : 'not analyzed'}`,
      ).toBeLessThanOrEqual(most)
    }
  }
})

import { createPool, type Pool } from 'mysql2/promise'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { tablesOf } from '../../packages/mysql/src/connection/identifiers.ts'
import { fill } from '../../packages/mysql/src/connection/literals.ts'
import { parkedStatements } from '../../packages/mysql/src/relay/parked-statements.ts'
import { relayStatements } from '../../packages/mysql/src/relay/relay-statements.ts'
import { rowsExamined } from '../support/engines/mysql-reads.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const tables = tablesOf('test', 'txbox_')
const relay = relayStatements(tables, target.engine as 'mysql')
const parked = parkedStatements(tables)
const ROWS = 50_000
const KEY = Buffer.from('key-0')
let pool: Pool
let places: bigint[]
/** Places with their stamps, as JSON. */
let named: string[]

beforeAll(async () => {
  pool = createPool({ uri: outbox.url(), connectionLimit: 1 })
})
afterAll(() => pool.end())

/** One key has nearly all parked messages; two other keys of its shard have a few. */
async function fillTables(): Promise<void> {
  for (let from = 1; from <= ROWS; from += 10_000) {
    const rows = Array.from({ length: 10_000 }, (_, index) => {
      const n = from + index
      const key = n === 7 || n === 8 ? 'key-1' : n === 9 ? 'key-2' : 'key-0'
      const due = n === 1 || n === 7 ? 'utc_timestamp(6)' : 'null'
      return `(utc_timestamp(6), ${due}, 3, '${key}', 'm${n}', 't', '${key}', 't', '{}', '')`
    })
    await pool.query(
      `insert into txbox_parked (created_at, due_at, shard, order_key, id, topic, \`key\`, content_type, headers, payload)
       values ${rows.join()}`,
    )
  }
  const messages = Array.from(
    { length: 2000 },
    (_, n) => `(utc_timestamp(6), 3, 'o${n}', 't', 'key-${n % 5}', 't', '{}', '')`,
  )
  await pool.query(
    `insert into txbox_outbox (created_at, shard, id, topic, \`key\`, content_type, headers, payload) values ${messages.join()}`,
  )
  const [rows] = await pool.query(
    `select cast(place as char) as place, cast(timestampdiff(microsecond, '1970-01-01', created_at) as char) as stamp
     from txbox_parked as p where order_key = 'key-0' order by p.place limit 1000`,
  )
  places = (rows as { place: string }[]).map(({ place }) => BigInt(place))
  named = (rows as { place: string; stamp: string }[]).map(({ place, stamp }) => `[${place},${stamp}]`)
}

test('O4 a key with very many parked messages does not slow down statements on other keys', async () => {
  await fillTables()
  // The server does this by itself after some seconds.
  await pool.query('analyze table txbox_parked')
  const list = (numbers: readonly (bigint | string)[]): string => `[${numbers.join()}]`
  const [place, stamp] = JSON.parse(named[900]!) as [number, number]
  const keep = JSON.stringify([
    { number: place, stamp, attempts: 1, dead: 0, suspect: 0, retry_us: 1000, error: 'no' },
  ])
  const all: Record<string, readonly [statement: string, most: number]> = {
    'reads the outbox': [fill(relay.read, [1000, 3, 3, 3, 1000]), 2100],
    'looks for work': [[fill(relay.hasBacklog, [3, 3]), fill(relay.hasDue, [3, 3])].join('\nunion all'), 20],
    'finds what is due': [fill(parked.due, [3, 3, 3, 1000]), 20],
    'goes on in a key': [
      fill(parked.readOnward, [1000, 3, KEY, places[500]!, ...(JSON.parse(named[500]!) as number[]), 100]),
      200,
    ],
    'finds who is next': [fill(parked.next, [3, KEY]), 20],
    'reads single messages': [fill(parked.readAlone, [1000, list(named.slice(0, 10))]), 40],
    'deletes what was accepted': [fill(parked.remove, [list(named.slice(0, 100))]), 500],
    'keeps what was refused': [fill(parked.keep, [keep]), 40],
    'heals keys': [fill(parked.heads, [3, Buffer.alloc(0), 10_000]), 60],
    'finds suspects': [fill(parked.findSuspect, [3, 3]), 20],
    'finds what becomes suspect': [fill(parked.unsuspected, [places[10]!, places[60]!, 3]), 100],
    'releases the next': [fill(parked.release, [list(places.slice(901, 902))]), 40],
  }
  for (const [what, [statement, most]] of Object.entries(all)) {
    expect(await rowsExamined(pool, statement), what).toBeLessThanOrEqual(most)
  }
})

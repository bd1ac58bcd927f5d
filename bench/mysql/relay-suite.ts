import { migrate, mysql } from '@txbox/mysql'
import { createOutbox } from '@txbox/outbox'
import { createRelay, type Publisher } from '@txbox/relay'
import type { Pool, RowDataPacket } from 'mysql2/promise'
import { orderOfTurn } from '../measure/rotation.ts'
import { ratioOf, summarise } from '../measure/statistics.ts'
import { anyOrder } from '../order-message.ts'
import { ratesBeside } from '../report/rates-table.ts'
import { formatTable, ratioSpread, whole, wholeSpread } from '../report/table.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { BARE_TEXT, WHOLE_MESSAGE, relayByHand, type HandTable } from './relay-by-hand.ts'

const MESSAGES = 100_000
const BACKLOG = 'backlog_'

/** One relay with an outbox table of its own, which is filled before each drain. */
interface RelayVariant {
  readonly title: string
  readonly table: string
  fill(pool: Pool): Promise<unknown>
  /** From no connection at all until the outbox is empty and the relay has ended. @returns how many were published. */
  drain(): Promise<number>
}

/** The relay against a loop by hand, into a publisher that does nothing. */
export function mysqlRelaySuite(database: BenchDatabase): Suite {
  return {
    name: 'relay',
    async run({ rounds }) {
      console.log(
        `\nrelay: draining ${whole(MESSAGES)} messages of 500 bytes and 1000 keys into a publisher that does nothing ` +
          `(pool of 6; by hand one connection), ${rounds} rounds`,
      )
      const pool = database.pool(1)
      await makeBacklog(pool)
      const variants = [
        await byHand(database, pool, 'by hand, one loop', 'relay_by_hand', WHOLE_MESSAGE),
        await byHand(
          database,
          pool,
          'by hand, text only and without headers',
          'relay_by_hand_bare',
          BARE_TEXT,
        ),
        await txbox(database, pool, 'relay.drain()', ACCEPTS),
        await txbox(database, pool, "relay.drain(), publisher of ordering 'per-key'", {
          ...ACCEPTS,
          ordering: 'per-key',
        }),
      ]
      const rates = await interleavedDrains(pool, variants, rounds)
      await pool.end()
      const [hand, , ours] = variants.map((variant) => rates.get(variant)!)
      console.log(
        formatTable(
          ['', 'messages/s (min–max)', 'rate ÷ by hand (min–max)'],
          variants.map((variant) => [
            variant.title,
            wholeSpread(summarise(rates.get(variant)!)),
            ratioSpread(ratioOf(rates.get(variant)!, hand!)),
          ]),
        ),
      )
      return [
        {
          what: 'relay: drain rate ÷ loop by hand',
          bound: { atLeast: 0.8 },
          ratio: ratioOf(ours!, hand!),
          figures: ratesBeside(ours!, 'by hand', hand!),
        },
      ]
    },
  }
}

/** A publisher that accepts all messages and does nothing, so that only the relay is measured. */
const ACCEPTS: Publisher = { publish: async (messages) => messages.map(() => ({ status: 'accepted' })) }

/** Makes the messages once, by `outbox.publish`; every drain begins with a copy of them. */
async function makeBacklog(pool: Pool): Promise<void> {
  await migrate(pool, { prefix: BACKLOG })
  const outbox = createOutbox({ database: mysql({ prefix: BACKLOG }) })
  const connection = await pool.getConnection()
  for (let made = 0; made < MESSAGES; made += 1000) {
    await connection.beginTransaction()
    await outbox.publish(connection, Array.from({ length: 1000 }, anyOrder))
    await connection.commit()
  }
  connection.release()
}

async function byHand(
  database: BenchDatabase,
  pool: Pool,
  title: string,
  table: string,
  hand: HandTable,
): Promise<RelayVariant> {
  await pool.query(hand.create(table))
  return {
    title,
    table,
    fill: (pool) =>
      pool.query(
        `insert into ${table} (${hand.columns}) select ${hand.values} from ${BACKLOG}outbox as o order by o.seq`,
      ),
    async drain() {
      const connection = await database.connect()
      try {
        return await relayByHand(connection, table, hand, async () => undefined)
      } finally {
        await connection.end()
      }
    },
  }
}

async function txbox(
  database: BenchDatabase,
  pool: Pool,
  title: string,
  publisher: Publisher,
): Promise<RelayVariant> {
  const prefix = publisher.ordering === undefined ? 'relay_' : 'relay_ordered_'
  const columns = 'created_at, shard, id, topic, `key`, type, content_type, headers, payload'
  await migrate(pool, { prefix })
  return {
    title,
    table: `${prefix}outbox`,
    fill: (pool) =>
      pool.query(
        `insert into ${prefix}outbox (${columns}) select ${columns} from ${BACKLOG}outbox as o order by o.seq`,
      ),
    async drain() {
      const own = database.pool(6)
      try {
        await using relay = createRelay({ database: mysql({ db: own, prefix }), publisher })
        return (await relay.drain()).published
      } finally {
        await own.end()
      }
    },
  }
}

/** Fills and drains the outbox of each variant in turns; only the draining is timed. The first round is the warm-up. */
async function interleavedDrains(
  pool: Pool,
  variants: readonly RelayVariant[],
  rounds: number,
): Promise<ReadonlyMap<RelayVariant, readonly number[]>> {
  const rates = new Map<RelayVariant, number[]>(variants.map((variant) => [variant, []]))
  for (let round = -1; round < rounds; round++) {
    for (const variant of orderOfTurn(variants, round + 1)) {
      await pool.query(`truncate table ${variant.table}`)
      await variant.fill(pool)
      await pool.query(`analyze table ${variant.table}`)
      const startedAt = performance.now()
      const published = await variant.drain()
      const seconds = (performance.now() - startedAt) / 1000
      const [[left]] = await pool.query<RowDataPacket[]>(`select count(*) as n from ${variant.table}`)
      if (published !== MESSAGES || Number(left?.['n']) > 0) {
        throw new Error(`${variant.title}: ${published} of ${MESSAGES} messages were published.`)
      }
      if (round >= 0) rates.get(variant)!.push(MESSAGES / seconds)
    }
  }
  return rates
}

import { interleavedRates, type Rates } from '../measure/interleaved-rates.ts'
import { ratioOf } from '../measure/statistics.ts'
import { formatRates, ratesBeside, type VariantTitle } from '../report/rates-table.ts'
import type { Target } from '../report/target.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { HTTP_VARIANTS, httpSchemaOf, httpVariant, ordersOf, type HttpVariantName } from './http-variants.ts'
import { checkpoint, createWorkspace } from './workspace.ts'

const CONNECTIONS = 16

const TITLES: Readonly<Record<HttpVariantName, VariantTitle<HttpVariantName>>> = {
  bare: { title: 'Fastify, the insert alone' },
  byHand: { title: 'Fastify, the statements of the plug-in by hand' },
  plugin: { title: 'Fastify, plug-in, new keys', byHand: 'byHand' },
  replay: { title: 'Fastify, plug-in, replays' },
  expressBare: { title: 'Express, the insert alone' },
  expressPlugin: { title: 'Express, plug-in, new keys' },
  expressIdempotencyMemory: { title: 'Express, express-idempotency, store in memory' },
}

/** Measures a POST with one insert through servers in this process, with and without the plug-ins. */
export function httpSuite(database: BenchDatabase): Suite {
  return {
    name: 'http',
    async run(options) {
      const names = Object.keys(HTTP_VARIANTS) as HttpVariantName[]
      const pool = database.pool({ max: CONNECTIONS })
      for (const name of names) {
        await createWorkspace(pool, httpSchemaOf(name))
        await pool.query(
          `create table ${httpSchemaOf(name)}.orders (id bigint generated always as identity primary key, sku text, count integer)`,
        )
      }
      await checkpoint(pool)
      const variants = await Promise.all(names.map((name) => httpVariant(name, pool)))
      console.log(
        `\nhttp: a POST with one insert, ${CONNECTIONS} connections to each server, one process, pool of ${CONNECTIONS}`,
      )
      const measured = await interleavedRates(variants, { ...options, clients: CONNECTIONS })
      console.log(formatRates<HttpVariantName>(TITLES, measured))
      for (const variant of variants) {
        await variant.close()
        await assertOrders(pool, variant.name, measured[variant.name])
      }
      await database.close(pool)
      return [
        target('http, plug-in: rate ÷ by hand', 0.95, measured, 'plugin', 'byHand'),
        target('http, replay: rate ÷ first request', 1.5, measured, 'replay', 'plugin'),
      ]
    },
  }
}

/** @throws {Error} when a server has made other orders than it was sent: one that skips work would look fast. */
async function assertOrders(
  pool: ReturnType<BenchDatabase['pool']>,
  name: HttpVariantName,
  { transactions }: Rates,
): Promise<void> {
  const { rows } = await pool.query<{ orders: string }>(
    `select count(*) as orders from ${httpSchemaOf(name)}.orders`,
  )
  const [found, expected] = [Number(rows[0]!.orders), ordersOf(name, transactions)]
  if (found !== expected) throw new Error(`${name}: ${found} orders instead of ${expected}.`)
}

function target(
  what: string,
  atLeast: number,
  measured: Readonly<Record<HttpVariantName, Rates>>,
  ours: HttpVariantName,
  other: HttpVariantName,
): Target {
  const [own, others] = [measured[ours].perRound, measured[other].perRound]
  return {
    what,
    bound: { atLeast },
    ratio: ratioOf(own, others),
    figures: ratesBeside(own, TITLES[other].title, others),
  }
}

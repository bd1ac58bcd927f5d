import { randomBytes } from 'node:crypto'
import { uuidV7 } from '@txbox/core/internal'
import { createOutbox } from '@txbox/outbox'
import { mysql } from '@txbox/mysql'
import type { Pool } from 'mysql2/promise'
import type { Variant } from '../measure/interleaved-rates.ts'
import { anyOrder } from '../order-message.ts'
import { deduplicationSuite } from '../rates-suite.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { fillSends, type IdOrder } from './old-claims.ts'
import { transaction } from './transaction.ts'
import { anyAccount, assertWorkDone, createWorkspace, creditStatement } from './workspace.ts'

/** What the variants differ by. Bare: no message. */
const VARIANTS = {
  bare: undefined,
  fewOrdered: { many: false, order: 'ordered' },
  manyOrdered: { many: true, order: 'ordered' },
  fewRandom: { many: false, order: 'random' },
  manyRandom: { many: true, order: 'random' },
} as const satisfies Record<string, { many: boolean; order: IdOrder } | undefined>
type VariantName = keyof typeof VARIANTS

export function mysqlDeduplicationSuite(database: BenchDatabase): Suite {
  return deduplicationSuite<VariantName>({
    shown: {
      bare: { title: 'bare transaction, mysql2' },
      fewOrdered: { title: 'few old ids, in the order of time' },
      manyOrdered: { title: 'many old ids, in the order of time', byHand: 'fewOrdered' },
      fewRandom: { title: 'few old ids, random' },
      manyRandom: { title: 'many old ids, random', byHand: 'fewRandom' },
    },
    targets: [
      {
        what: 'deduplication, many old ids in the order of time: rate ÷ few',
        ours: 'manyOrdered',
        other: 'fewOrdered',
        bound: { atLeast: 0.9 },
      },
      {
        what: 'deduplication, many old ids, random: rate ÷ few',
        ours: 'manyRandom',
        other: 'fewRandom',
        bound: { atLeast: 0.9 },
      },
    ],
    async prepare({ clients, oldClaims }) {
      const names = Object.keys(VARIANTS) as VariantName[]
      const pool = database.pool(1)
      const oldOf = (name: VariantName): number => (VARIANTS[name]?.many === true ? oldClaims : 0)
      for (const name of names) {
        await createWorkspace(pool, prefixOf(name))
        await fillSends(pool, prefixOf(name), oldOf(name), VARIANTS[name]?.order ?? 'ordered')
      }
      const pools = database.poolOfEach(names, clients)
      return {
        variants: names.map((name) => ({ name, transaction: variant(name, pools.get(name)!) })),
        assertWorkDone: (name, transactions) => {
          const stored = name === 'bare' ? 0 : transactions
          const expected = { credits: transactions, outbox: stored, inbox: oldOf(name) + stored }
          return assertWorkDone(pool, prefixOf(name), expected)
        },
        async close() {
          for (const each of [pool, ...pools.values()]) await each.end()
        },
      }
    },
  })
}

function prefixOf(name: VariantName): string {
  return `deduplication_${name.toLowerCase()}_`
}

function variant(name: VariantName, pool: Pool): Variant['transaction'] {
  const prefix = prefixOf(name)
  const credit = creditStatement(prefix)
  const about = VARIANTS[name]
  if (about === undefined)
    return () => transaction(pool, (connection) => connection.query(credit, [anyAccount()]))
  const outbox = createOutbox({ database: mysql({ prefix }), deduplication: {} })
  // An id in the order of time comes after all old ones.
  const newId = about.order === 'ordered' ? () => `z${uuidV7()}` : () => randomBytes(16).toString('hex')
  return () =>
    transaction(pool, async (connection) => {
      await connection.query(credit, [anyAccount()])
      await outbox.publish(connection, { ...anyOrder(), deduplicationId: newId() })
    })
}

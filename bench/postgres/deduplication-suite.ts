import { randomBytes } from 'node:crypto'
import { uuidV7 } from '@txbox/core/internal'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import type { Pool } from 'pg'
import type { Variant } from '../measure/interleaved-rates.ts'
import { anyOrder } from '../order-message.ts'
import { deduplicationSuite } from '../rates-suite.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { fillSends, type IdOrder } from './old-claims.ts'
import { transaction } from './transaction.ts'
import { anyAccount, assertWorkDone, checkpoint, createWorkspace, creditStatement } from './workspace.ts'

/** What the variants differ by. Bare: no message. */
const VARIANTS = {
  bare: undefined,
  fewOrdered: { many: false, order: 'ordered' },
  manyOrdered: { many: true, order: 'ordered' },
  fewRandom: { many: false, order: 'random' },
  manyRandom: { many: true, order: 'random' },
} as const satisfies Record<string, { many: boolean; order: IdOrder } | undefined>
type VariantName = keyof typeof VARIANTS

export function postgresDeduplicationSuite(database: BenchDatabase): Suite {
  return deduplicationSuite<VariantName>({
    shown: {
      bare: { title: 'bare transaction, pg' },
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
      const pool = database.pool({ max: clients })
      const names = Object.keys(VARIANTS) as VariantName[]
      const oldOf = (name: VariantName): number => (VARIANTS[name]?.many === true ? oldClaims : 0)
      for (const name of names) {
        await createWorkspace(pool, schemaOf(name))
        await fillSends(pool, schemaOf(name), oldOf(name), VARIANTS[name]?.order ?? 'ordered')
      }
      await checkpoint(pool)
      return {
        variants: names.map((name) => ({ name, transaction: variant(name, pool) })),
        assertWorkDone: (name, transactions) => {
          const stored = name === 'bare' ? 0 : transactions
          const expected = { credits: transactions, outbox: stored, inbox: oldOf(name) + stored }
          return assertWorkDone(pool, schemaOf(name), expected)
        },
        close: () => database.close(pool),
      }
    },
  })
}

function schemaOf(name: VariantName): string {
  return `deduplication_${name.toLowerCase()}`
}

function variant(name: VariantName, pool: Pool): Variant['transaction'] {
  const schema = schemaOf(name)
  const credit = creditStatement(schema)
  const about = VARIANTS[name]
  if (about === undefined) return () => transaction(pool, (client) => client.query(credit, [anyAccount()]))
  const outbox = createOutbox({ database: postgres({ schema }), deduplication: {} })
  // An id in the order of time comes after all old ones.
  const newId = about.order === 'ordered' ? () => `z${uuidV7()}` : () => randomBytes(16).toString('hex')
  return () =>
    transaction(pool, async (client) => {
      await client.query(credit, [anyAccount()])
      await outbox.publish(client, { ...anyOrder(), deduplicationId: newId() })
    })
}

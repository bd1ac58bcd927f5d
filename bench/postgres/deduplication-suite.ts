import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import type { Pool } from 'pg'
import {
  DEDUPLICATION_NAMES,
  DEDUPLICATION_VARIANTS,
  deduplicationTable,
  deduplicationWork,
  newIdsOf,
  oldIdsOf,
  type DeduplicationVariant,
} from '../deduplication-variants.ts'
import type { Variant } from '../measure/interleaved-rates.ts'
import { anyOrder } from '../order-message.ts'
import { deduplicationSuite } from '../rates-suite.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { fillSends } from './old-claims.ts'
import { transaction } from './transaction.ts'
import { anyAccount, assertWorkDone, checkpoint, createWorkspace, creditStatement } from './workspace.ts'

export function postgresDeduplicationSuite(database: BenchDatabase): Suite {
  return deduplicationSuite<DeduplicationVariant>({
    ...deduplicationTable('pg'),
    async prepare({ clients, oldClaims }) {
      const pool = database.pool({ max: clients })
      for (const name of DEDUPLICATION_NAMES) {
        await createWorkspace(pool, schemaOf(name))
        await fillSends(
          pool,
          schemaOf(name),
          oldIdsOf(name, oldClaims),
          DEDUPLICATION_VARIANTS[name]?.order ?? 'ordered',
        )
      }
      await checkpoint(pool)
      return {
        variants: DEDUPLICATION_NAMES.map((name) => ({ name, transaction: variant(name, pool) })),
        assertWorkDone: (name, transactions) =>
          assertWorkDone(pool, schemaOf(name), deduplicationWork(name, transactions, oldClaims)),
        close: () => database.close(pool),
      }
    },
  })
}

function schemaOf(name: DeduplicationVariant): string {
  return `deduplication_${name.toLowerCase()}`
}

function variant(name: DeduplicationVariant, pool: Pool): Variant['transaction'] {
  const schema = schemaOf(name)
  const credit = creditStatement(schema)
  const about = DEDUPLICATION_VARIANTS[name]
  if (about === undefined) return () => transaction(pool, (client) => client.query(credit, [anyAccount()]))
  const outbox = createOutbox({ database: postgres({ schema }), deduplication: {} })
  const newId = newIdsOf(about.order)
  return () =>
    transaction(pool, async (client) => {
      await client.query(credit, [anyAccount()])
      await outbox.publish(client, { ...anyOrder(), deduplicationId: newId() })
    })
}

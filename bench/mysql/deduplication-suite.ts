import { createOutbox } from '@txbox/outbox'
import { mysql } from '@txbox/mysql'
import type { Pool } from 'mysql2/promise'
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
import { anyAccount, assertWorkDone, createWorkspace, creditStatement } from './workspace.ts'

export function mysqlDeduplicationSuite(database: BenchDatabase): Suite {
  return deduplicationSuite<DeduplicationVariant>({
    ...deduplicationTable('mysql2'),
    async prepare({ clients, oldClaims }) {
      const pool = database.pool(1)
      for (const name of DEDUPLICATION_NAMES) {
        await createWorkspace(pool, prefixOf(name))
        await fillSends(
          pool,
          prefixOf(name),
          oldIdsOf(name, oldClaims),
          DEDUPLICATION_VARIANTS[name]?.order ?? 'ordered',
        )
      }
      const pools = database.poolOfEach(DEDUPLICATION_NAMES, clients)
      return {
        variants: DEDUPLICATION_NAMES.map((name) => ({ name, transaction: variant(name, pools.get(name)!) })),
        assertWorkDone: (name, transactions) =>
          assertWorkDone(pool, prefixOf(name), deduplicationWork(name, transactions, oldClaims)),
        async close() {
          for (const each of [pool, ...pools.values()]) await each.end()
        },
      }
    },
  })
}

function prefixOf(name: DeduplicationVariant): string {
  return `deduplication_${name.toLowerCase()}_`
}

function variant(name: DeduplicationVariant, pool: Pool): Variant['transaction'] {
  const prefix = prefixOf(name)
  const credit = creditStatement(prefix)
  const about = DEDUPLICATION_VARIANTS[name]
  if (about === undefined)
    return () => transaction(pool, (connection) => connection.query(credit, [anyAccount()]))
  const outbox = createOutbox({ database: mysql({ prefix }), deduplication: {} })
  const newId = newIdsOf(about.order)
  return () =>
    transaction(pool, async (connection) => {
      await connection.query(credit, [anyAccount()])
      await outbox.publish(connection, { ...anyOrder(), deduplicationId: newId() })
    })
}

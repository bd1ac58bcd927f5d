import { inboxSuite } from '../rates-suite.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { INBOX_VARIANTS, inboxVariant, prefixOf, type InboxVariantName } from './inbox-variants.ts'
import { fillClaims } from './old-claims.ts'
import { assertWorkDone, createWorkspace } from './workspace.ts'

export function mysqlInboxSuite(database: BenchDatabase): Suite {
  return inboxSuite<InboxVariantName>({
    titles: {
      bare: { title: 'bare transaction, mysql2' },
      byHandMysql2: { title: 'claim by hand, mysql2' },
      processMysql2: { title: 'inbox.process, mysql2', byHand: 'byHandMysql2' },
      byHandKysely: { title: 'claim by hand, Kysely sql' },
      processKysely: { title: 'inbox.process, Kysely', byHand: 'byHandKysely' },
    },
    targets: [
      {
        what: 'inbox.process, mysql2: cost ÷ by hand',
        ours: 'processMysql2',
        other: 'byHandMysql2',
        bound: { atMost: 1.05 },
      },
      {
        what: 'inbox.process, Kysely: cost ÷ by hand',
        ours: 'processKysely',
        other: 'byHandKysely',
        bound: { atMost: 1.05 },
      },
    ],
    async prepare({ clients, oldClaims }) {
      const names = Object.keys(INBOX_VARIANTS) as InboxVariantName[]
      const pool = database.pool(1)
      for (const name of names) {
        await createWorkspace(pool, prefixOf(name))
        await fillClaims(pool, prefixOf(name), oldClaims)
      }
      const pools = database.poolOfEach(names, clients)
      return {
        variants: names.map((name) => inboxVariant(name, pools.get(name)!)),
        assertWorkDone: (name, transactions) =>
          assertWorkDone(pool, prefixOf(name), {
            credits: transactions,
            inbox: oldClaims + (name === 'bare' ? 0 : transactions),
          }),
        async close() {
          for (const each of [pool, ...pools.values()]) await each.end()
        },
      }
    },
  })
}

import { publishSuite } from '../rates-suite.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { PUBLISH_VARIANTS, publishVariant, prefixOf, type PublishVariantName } from './publish-variants.ts'
import { assertWorkDone, createWorkspace } from './workspace.ts'

export function mysqlPublishSuite(database: BenchDatabase): Suite {
  return publishSuite<PublishVariantName>({
    titles: {
      bare: { title: 'bare transaction, mysql2' },
      byHandMysql2: { title: 'INSERT by hand, mysql2' },
      publishMysql2: { title: 'outbox.publish, mysql2', byHand: 'byHandMysql2' },
      onceByHandMysql2: { title: 'the same, an id remembered by hand' },
      publishOnceMysql2: { title: 'outbox.publish, deduplication', byHand: 'onceByHandMysql2' },
      publishLockedMysql2: { title: 'outbox.publish, lockKeys, mysql2', byHand: 'byHandMysql2' },
      byHandKysely: { title: 'INSERT by hand, Kysely sql' },
      publishKysely: { title: 'outbox.publish, Kysely', byHand: 'byHandKysely' },
    },
    targets: [
      {
        what: 'outbox.publish, mysql2: cost ÷ INSERT by hand',
        ours: 'publishMysql2',
        other: 'byHandMysql2',
        bound: { atMost: 1.1 },
      },
      {
        what: 'outbox.publish with deduplication, mysql2: cost ÷ by hand',
        ours: 'publishOnceMysql2',
        other: 'onceByHandMysql2',
        bound: { atMost: 1.15 },
      },
      {
        what: 'outbox.publish, Kysely: cost ÷ INSERT by hand',
        ours: 'publishKysely',
        other: 'byHandKysely',
        bound: { atMost: 1.1 },
      },
    ],
    async prepare({ clients }) {
      const names = Object.keys(PUBLISH_VARIANTS) as PublishVariantName[]
      const pool = database.pool(1)
      for (const name of names) {
        await createWorkspace(pool, prefixOf(name))
      }
      const pools = database.poolOfEach(names, clients)
      return {
        variants: names.map((name) => publishVariant(name, pools.get(name)!)),
        assertWorkDone: (name, transactions) =>
          assertWorkDone(pool, prefixOf(name), {
            credits: transactions,
            outbox: name === 'bare' ? 0 : transactions,
            inbox: name === 'onceByHandMysql2' || name === 'publishOnceMysql2' ? transactions : 0,
          }),
        async close() {
          for (const each of [pool, ...pools.values()]) await each.end()
        },
      }
    },
  })
}

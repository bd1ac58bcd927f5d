import { publishSuite } from '../rates-suite.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { PUBLISH_VARIANTS, publishVariant, schemaOf, type PublishVariantName } from './publish-variants.ts'
import { assertWorkDone, checkpoint, createWorkspace } from './workspace.ts'

export function postgresPublishSuite(database: BenchDatabase): Suite {
  return publishSuite<PublishVariantName>({
    titles: {
      bare: { title: 'bare transaction, pg' },
      byHandPg: { title: 'INSERT by hand, pg' },
      notifyByHandPg: { title: 'the same with pg_notify 15 times a second', byHand: 'byHandPg' },
      publishSilentPg: { title: 'outbox.publish, notify: false, pg', byHand: 'byHandPg' },
      publishPg: { title: 'outbox.publish, pg', byHand: 'byHandPg' },
      onceByHandPg: { title: 'the same, an id remembered by hand' },
      publishOncePg: { title: 'outbox.publish, deduplication', byHand: 'onceByHandPg' },
      publishLockedPg: { title: 'outbox.publish, lockKeys, pg', byHand: 'byHandPg' },
      byHandKysely: { title: 'INSERT by hand, Kysely sql' },
      publishKysely: { title: 'outbox.publish, Kysely', byHand: 'byHandKysely' },
    },
    targets: [
      {
        what: 'outbox.publish, pg: cost ÷ INSERT by hand',
        ours: 'publishPg',
        other: 'byHandPg',
        bound: { atMost: 1.1 },
      },
      {
        what: "outbox.publish, notify: 'auto', pg: cost ÷ notify: false",
        ours: 'publishPg',
        other: 'publishSilentPg',
        bound: { atMost: 1.02 },
      },
      {
        what: 'floor of that: INSERT and pg_notify by hand: cost ÷ INSERT by hand',
        ours: 'notifyByHandPg',
        other: 'byHandPg',
        bound: { atMost: 1.02 },
      },
      {
        what: 'outbox.publish with deduplication, pg: cost ÷ by hand',
        ours: 'publishOncePg',
        other: 'onceByHandPg',
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
      const pool = database.pool({ max: clients })
      const names = Object.keys(PUBLISH_VARIANTS) as PublishVariantName[]
      for (const name of names) {
        await pool.query(`drop schema if exists ${schemaOf(name)} cascade`)
        await createWorkspace(pool, schemaOf(name))
      }
      await checkpoint(pool)
      return {
        variants: names.map((name) => publishVariant(name, pool)),
        assertWorkDone: (name, transactions) =>
          assertWorkDone(pool, schemaOf(name), {
            credits: transactions,
            outbox: name === 'bare' ? 0 : transactions,
            inbox: name === 'onceByHandPg' || name === 'publishOncePg' ? transactions : 0,
          }),
        close: () => database.close(pool),
      }
    },
  })
}

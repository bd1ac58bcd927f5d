import { inboxSuite } from '../rates-suite.ts'
import type { Suite } from '../suite.ts'
import type { BenchDatabase } from './bench-database.ts'
import { INBOX_VARIANTS, inboxVariant, schemaOf, type InboxVariantName } from './inbox-variants.ts'
import { fillClaims } from './old-claims.ts'
import { assertWorkDone, checkpoint, createWorkspace } from './workspace.ts'

export function postgresInboxSuite(database: BenchDatabase): Suite {
  return inboxSuite<InboxVariantName>({
    titles: {
      bare: { title: 'bare transaction, pg' },
      byHandPg: { title: 'claim by hand, pg' },
      processPg: { title: 'inbox.process, pg', byHand: 'byHandPg' },
      byHandKysely: { title: 'claim by hand, Kysely sql' },
      processKysely: { title: 'inbox.process, Kysely', byHand: 'byHandKysely' },
      byHandPipelined: { title: 'claim by hand, pg pipelined' },
      runPipelined: { title: 'inbox.run, pg pipelined', byHand: 'byHandPipelined' },
    },
    targets: [
      {
        what: 'inbox.process, pg: cost ÷ by hand',
        ours: 'processPg',
        other: 'byHandPg',
        bound: { atMost: 1.05 },
      },
      {
        what: 'inbox.process, Kysely: cost ÷ by hand',
        ours: 'processKysely',
        other: 'byHandKysely',
        bound: { atMost: 1.05 },
      },
      {
        what: 'inbox.run, pg pipelined: rate ÷ bare',
        ours: 'runPipelined',
        other: 'bare',
        bound: { atLeast: 0.9 },
      },
    ],
    async prepare({ clients, oldClaims }) {
      const pools = {
        plain: database.pool({ max: clients }),
        pipelined: database.pool({ max: clients, pipeline: true }),
      }
      const names = Object.keys(INBOX_VARIANTS) as InboxVariantName[]
      for (const name of names) {
        await pools.plain.query(`drop schema if exists ${schemaOf(name)} cascade`)
        await createWorkspace(pools.plain, schemaOf(name))
        await fillClaims(pools.plain, schemaOf(name), oldClaims)
      }
      await checkpoint(pools.plain)
      return {
        variants: names.map((name) => inboxVariant(name, pools)),
        assertWorkDone: (name, transactions) =>
          assertWorkDone(pools.plain, schemaOf(name), {
            credits: transactions,
            inbox: oldClaims + (name === 'bare' ? 0 : transactions),
          }),
        async close() {
          await database.close(pools.plain)
          await database.close(pools.pipelined)
        },
      }
    },
  })
}

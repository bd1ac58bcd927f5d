import { expect, onTestFinished, test } from 'vitest'
import { createOutbox } from '@txbox/outbox'
import { InboxUnderTest } from '../support/subjects/inbox-under-test.ts'
import { messagesOf, publishIn } from '../support/subjects/relay-under-test.ts'
import {
  ISOLATIONS,
  onEachKind,
  useTarget,
  type OpenTransaction,
  type Root,
} from '../support/engines/target.ts'

const target = useTarget()

/** What can come first in a transaction. */
const STATEMENTS: Record<string, (root: Root, { tx }: OpenTransaction) => Promise<unknown>> = {
  process: (root, { tx }) => new InboxUnderTest(target, root).inbox.process(tx, { id: 'x' }, () => undefined),
  processBatch: (root, { tx }) =>
    new InboxUnderTest(target, root).inbox.processBatch(tx, [{ id: 'x' }], () => undefined),
  publish: (root, transaction) => publishIn(root, transaction, messagesOf('a', 1)),
  'publish with lockKeys': (root, { tx }) =>
    createOutbox({ database: root.database, lockKeys: true }).publish(tx, messagesOf('a', 2)),
}

onEachKind(target, (kind) => {
  for (const isolation of ISOLATIONS.filter((level) => level !== 'read committed')) {
    for (const [what, first] of Object.entries(STATEMENTS)) {
      test(`${what} opens no snapshot, not even the first time: rows that are committed after it are seen, and can be changed (${isolation})`, async () => {
        const root = target.open(kind, { isolation })
        onTestFinished(() => root.close())
        for (const time of ['first', 'second']) {
          const name = `${kind.name} ${isolation} ${what} ${time}`
          const transaction = await root.begin()
          await first(root, transaction)
          await target.sql('insert into counters (name, n) values (?, 1), (?, 1)', [name, `${name}, changed`])
          await transaction.exec('update counters set n = 2 where name = ?', [`${name}, changed`])
          const seen = await transaction.exec('select n from counters where left(name, ?) = ? order by n', [
            name.length,
            name,
          ])
          expect(seen).toEqual([{ n: 1 }, { n: 2 }])
          await transaction.rollback()
        }
      })
    }
  }
})

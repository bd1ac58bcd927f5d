import { expect, test } from 'vitest'
import { TransactionAbortedError, defineLibrary, type TransactionHandle } from '@txbox/core'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { onEachRoot, useRoot, useTarget, type OpenTransaction } from '../../support/engines/target.ts'

const target = useTarget()

/** A transaction of a library that calls a hook before COMMIT, and ignores its errors. */
interface Hooked {
  readonly isHooked: true
  readonly transaction: OpenTransaction
}

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)

  for (const [failure, abort] of Object.entries(target.abortions)) {
    test(`I7 I10 a hook of the library before COMMIT swallows an error: nothing is reported as committed (${failure})`, async () => {
      const db = { isHookedRoot: true }
      const library = defineLibrary<Hooked, typeof db>({
        name: 'Hooked',
        recognises: (handle): handle is Hooked => (handle as Partial<Hooked> | null)?.isHooked === true,
        connectionOf: ({ transaction }) => transaction.tx,
        root: {
          recognises: (value): value is typeof db => value === db,
          async transact(_, work) {
            const transaction = await root.begin()
            try {
              const result = await work({ isHooked: true, transaction })
              await abort(transaction.tx).catch(() => undefined)
              await transaction.commit()
              return result
            } catch (error) {
              await transaction.rollback()
              throw error
            }
          },
        },
      })
      const options = { db: db as never, libraries: [library] }
      const database = (target.engine === 'postgres' ? postgres(options) : mysql(options)) as unknown
      const subject = new InboxUnderTest(target, { ...root, database: database as typeof root.database })
      const effect = (tx: unknown): Promise<void> =>
        target.effect((tx as Hooked).transaction.tx, subject.consumer)
      const run = subject.inbox.run({ id: 'x' }, (tx: TransactionHandle) => effect(tx))
      await expect(run).rejects.toThrow(TransactionAbortedError)
      const transacted = (database as typeof root.database).transact(effect)
      await expect(transacted).rejects.toThrow(TransactionAbortedError)
      expect([await subject.effects(), await subject.claimedKeys()]).toEqual([0, []])
    })
  }
})

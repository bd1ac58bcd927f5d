import { expect, test } from 'vitest'
import { TransactionAbortedError } from '@txbox/core'
import { InboxUnderTest, WAYS } from '../../support/subjects/inbox-under-test.ts'
import { onEachKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)
  const isSeen = kind.driver !== 'hidden'

  for (const way of WAYS) {
    test.for(Object.entries(target.abortions))(
      `I7 the error names the SQL error of %s that fn swallowed, if txbox could see it (${way})`,
      async ([, abort]) => {
        const subject = new InboxUnderTest(target, root)
        let swallowed: unknown
        const error: unknown = await subject
          .deliver(way, { id: 'x' }, async (tx) => {
            await target.exec(tx, 'savepoint attempt').catch(() => undefined)
            await target.exec(tx, 'select * from recovered').catch(() => undefined)
            await target.exec(tx, 'rollback to savepoint attempt').catch(() => undefined)
            await abort(tx).catch((reason: unknown) => (swallowed = reason))
            // On PostgreSQL, this error says only that the transaction is aborted.
            if (target.engine === 'postgres') await target.exec(tx, 'select 1').catch(() => undefined)
          })
          .catch((reason: unknown) => reason)
        expect(error).toBeInstanceOf(TransactionAbortedError)
        const { message, cause } = error as Error
        if (!isSeen) return
        const text = messageOf(swallowed)
        expect(text.length).toBeGreaterThan(10)
        expect(message).toContain(`swallowed: ${text}`)
        expect(message).not.toContain('recovered')
        expect(messageOf(cause)).toBe(text)
      },
    )
  }

  test('I7 a claim that is rolled back without an SQL error names none, also after an error in an earlier transaction', async () => {
    const subject = new InboxUnderTest(target, root)
    for (let n = 0; n < 2; n++) {
      await subject
        .deliver('run', { id: `broken ${n}` }, async (tx) => {
          await Object.values(target.abortions)[0]!(tx)
        })
        .catch(() => undefined)
    }
    const error: unknown = await subject
      .deliver('run', { id: 'x' }, (tx) => target.exec(tx, 'rollback'))
      .catch((reason: unknown) => reason)
    expect((error as Error).message).not.toContain('swallowed:')
  })
})

/** The message of the driver's error, under that of a library. */
function messageOf(error: unknown): string {
  let at = error
  while (at instanceof Error && at.cause instanceof Error) at = at.cause
  return String(Reflect.get(at as object, 'sqlMessage') ?? (at as Error).message)
}

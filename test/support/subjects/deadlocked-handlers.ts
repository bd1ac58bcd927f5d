import { expect } from 'vitest'
import type { TransactionHandle } from '@txbox/core'
import { InboxUnderTest, type Handler } from './inbox-under-test.ts'
import type { Root, Target } from '../engines/target.ts'

/**
 * Two deliveries whose handlers lock two rows in opposite order, so that their own statements deadlock. `run` must
 * repeat the transaction that the server rolled back.
 */
export async function expectDeadlockToBeRetried(
  target: Target,
  root: Root,
  increment: Increment = incrementOn(target),
): Promise<void> {
  const [one, other] = [new InboxUnderTest(target, root), new InboxUnderTest(target, root)]
  const rows = [`${one.consumer}-1`, `${one.consumer}-2`] as const
  for (const name of rows) await target.sql('insert into counters (name, n) values (?, 0)', [name])
  const both = Promise.withResolvers<void>()
  let inside = 0
  const attempts: number[] = []
  const incrementing =
    (subject: InboxUnderTest, first: string, second: string): Handler<string> =>
    async (tx, message, context) => {
      attempts.push(context.attempt)
      await subject.handle(tx, message, context)
      await increment(tx, first)
      // Both lock their first row before either requests the other's row, so there is always a deadlock.
      if ((inside += 1) === 2) both.resolve()
      await both.promise
      await increment(tx, second)
      return 'handled'
    }
  const outcomes = await Promise.all([
    one.inbox.run({ id: 'x' }, incrementing(one, rows[0], rows[1])),
    other.inbox.run({ id: 'x' }, incrementing(other, rows[1], rows[0])),
  ])
  expect(outcomes.map((outcome) => outcome.status)).toEqual(['processed', 'processed'])
  // The repeated transaction may lock its row before the waiting one does: then there is another deadlock.
  expect(attempts.slice(0, 3)).toEqual([1, 1, 2])
  expect([await one.effects(), await other.effects()]).toEqual([1, 1])
  const counted = await target.sql('select n from counters where name in (?, ?)', [...rows])
  expect(counted).toEqual([{ n: 2 }, { n: 2 }])
}

type Increment = (tx: TransactionHandle, name: string) => Promise<unknown>

function incrementOn(target: Target): Increment {
  return (tx, name) => target.exec(tx, 'update counters set n = n + 1 where name = ?', [name])
}

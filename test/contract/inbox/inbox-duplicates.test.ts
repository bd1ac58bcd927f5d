import { expect, test } from 'vitest'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { onEachKindAndIsolation, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const TRANSACTIONS = 12
const IDS = Array.from({ length: 10 }, (_, n) => `m${2 * n}`)

onEachKindAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation, max: TRANSACTIONS })

  test('I6 many concurrent duplicates, in opposite orders and in open transactions, neither wait nor deadlock', async () => {
    const subject = new InboxUnderTest(target, root)
    for (const id of IDS) await subject.process({ id })
    const transactions = await Promise.all(Array.from({ length: TRANSACTIONS }, () => root.begin()))
    // No transaction commits before all have read their claims: with an exclusive lock, they would wait forever.
    const outcomes = await Promise.all(
      transactions.map(async ({ tx }, index) => {
        const statuses: string[] = []
        for (const id of index % 2 === 0 ? IDS : IDS.toReversed()) {
          statuses.push((await subject.inbox.process(tx, { id }, subject.handle)).status)
        }
        return statuses
      }),
    )
    // Their locks do not block claims of the keys between.
    const between = IDS.map((_, n) => `m${2 * n + 1}`)
    for (const [index, { tx }] of transactions.slice(0, between.length).entries()) {
      const { status } = await subject.inbox.process(tx, { id: between[index]! }, subject.handle)
      expect(status).toBe('processed')
    }
    for (const transaction of transactions) await transaction.commit()
    expect(new Set(outcomes.flat())).toEqual(new Set(['duplicate']))
    expect(await subject.effects()).toBe(IDS.length + between.length)
  })
})

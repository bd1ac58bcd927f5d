import { describe, expect, test } from 'vitest'
import { MysqlQueue } from '../support/mysql-queue.ts'
import { ISOLATIONS, mainKind, useRoot, useTarget } from '../support/target.ts'

const target = useTarget()

describe.each(ISOLATIONS)('at %s', (isolation) => {
  const root = useRoot(target, mainKind(target), { isolation, max: 6 })
  const queue = new MysqlQueue(target, root)
  const idsOf = (messages: readonly { readonly id: string }[]): string[] => messages.map(({ id }) => id)

  test('Q2 messages of a key are received one after the other', async () => {
    const ids = await queue.send('a', 'a', 'b')
    const first = await queue.receive()
    expect(idsOf(first).sort()).toEqual([ids[0]!, ids[2]!].sort())
    expect(await queue.receive()).toEqual([])
    expect(await queue.store.settle(undefined, first)).toEqual([true, true])
    const second = await queue.receive()
    expect(idsOf(second)).toEqual([ids[1]])
    expect(second[0]).toMatchObject({ receives: 1, key: 'a', topic: 'orders', ordered: true })
    expect(Buffer.from(second[0]!.payload).toString()).toBe(ids[1])
    expect(await queue.store.settle(undefined, second)).toEqual([true])
    expect(await queue.receive()).toEqual([])
    expect(await queue.rows()).toEqual([])
  })

  test("Q7 a settlement commits or rolls back with the caller's transaction", async () => {
    const ids = await queue.send('a', undefined)
    const received = await queue.receive()
    expect(idsOf(received).sort()).toEqual([...ids].sort())
    const rolledBack = await queue.begin()
    expect(await queue.settleIn(rolledBack, ...received)).toEqual([true, true])
    await rolledBack.rollback()
    const committed = await queue.begin()
    expect(await queue.settleIn(committed, ...received)).toEqual([true, true])
    await committed.commit()
    expect(await queue.store.settle(undefined, received)).toEqual([false, false])
    expect(await queue.receive()).toEqual([])
    expect(await queue.rows()).toEqual([])
  })
})

import { describe, expect, test } from 'vitest'
import { PermanentError } from '@txbox/core'
import { createDeadLetters, InvalidOptionError } from '@txbox/relay'
import { Broker, refusing, rejected } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import {
  messagesOf,
  publishAll,
  publishTogether,
  RelayUnderTest,
} from '../../support/subjects/relay-under-test.ts'
import { mainKind, onMainRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const [bad, good] = keysOfOneShard(2) as [string, string]
const FOR_GOOD = { retryable: false }
const PARKED = target.engine === 'postgres' ? 'txbox.parked' : 'txbox_parked'

onMainRoot(target, (kind) => {
  const root = useRoot(target, kind)
  const never = new PermanentError('never')

  test('O5 discard deletes dead letters, and nothing else', async () => {
    const ids = await publishAll(root, messagesOf(bad, 3))
    const waiting = await publishAll(root, messagesOf(good, 1))
    const broker = new Broker()
    const publisher = broker.publisher({
      respond: (call) =>
        call.messages.map((message) => rejected({ retryable: message.id === waiting[0], error: never })),
    })
    const subject = await RelayUnderTest.started(root, publisher, {
      retry: { attempts: 9, delayMs: () => 600_000 },
    })
    await subject.hears('dead-lettered', 3)
    await subject.hears('parked')
    const dead = createDeadLetters({ database: root.database })
    expect((await dead.discard({ ids: [ids[1]!, waiting[0]!, 'nobody'] })).map(({ id }) => id)).toEqual([
      ids[1],
    ])
    expect((await dead.discard({ topic: 'other' })).length).toBe(0)
    expect((await dead.discard({ topic: 'test' })).map(({ id }) => id)).toEqual([ids[0], ids[2]])
    expect(await dead.list()).toEqual([])
    expect((await outbox.parked()).map(({ id }) => id)).toEqual(waiting)
  })

  test('O5 the list is filtered, and continues after an id', async () => {
    const topics = ['a', 'a', 'b', 'a', 'a']
    const ids = await publishAll(
      root,
      topics.map((topic, n) => ({ topic, type: n < 3 ? 'early' : 'late', key: `k${n % 2}`, payload: n })),
    )
    const subject = await RelayUnderTest.started(
      root,
      new Broker().publisher({ respond: refusing(new Set(ids), FOR_GOOD) }),
    )
    await subject.hears('dead-lettered', 5)
    const dead = createDeadLetters({ database: root.database })
    const idsOf = async (selection: Parameters<typeof dead.list>[0]) =>
      (await dead.list(selection)).map(({ id }) => ids.indexOf(id))
    expect(await idsOf({ topic: 'a' })).toEqual([0, 1, 3, 4])
    expect(await idsOf({ topic: 'a', type: 'late' })).toEqual([3, 4])
    expect(await idsOf({ key: 'k0' })).toEqual([0, 2, 4])
    expect(await idsOf({ limit: 2 })).toEqual([0, 1])
    expect(await idsOf({ limit: 2, after: ids[1] })).toEqual([2, 3])
    expect(await idsOf({ after: ids[4] })).toEqual([])
  })

  test('O5 nothing is changed without a selection, or by an invalid one', async () => {
    const dead = createDeadLetters({ database: root.database })
    const holes = Object.assign(['x'], { length: 2 })
    for (const wrong of [
      {},
      { ids: undefined },
      { ids: 'x' },
      { ids: holes },
      { id: 'x' },
      { topic: '' },
    ] as never[]) {
      await expect(dead.redrive(wrong)).rejects.toThrow(InvalidOptionError)
      await expect(dead.discard(wrong)).rejects.toThrow(InvalidOptionError)
    }
    await expect(dead.list({ limit: 0 })).rejects.toThrow(InvalidOptionError)
    expect(() => createDeadLetters({ database: root.database, by: '' })).toThrow(InvalidOptionError)
    expect(await dead.redrive({ ids: [] })).toEqual([])
    expect((await outbox.sql(`select count(*) as n from ${PARKED}`)).length).toBe(1)
  })
})

describe('on one kind of handle', () => {
  const root = useRoot(target, mainKind(target))

  test('O5 one call redrives or discards any number of dead letters, and reports them in the order of their ids', async () => {
    // A page has 1000 dead letters. The order of their ids is not that of their places.
    const ids = Array.from({ length: 2100 }, (_, n) => String(n).padStart(4, '0'))
    const shuffled = ids.map((_, n) => ids[(n * 1009) % ids.length]!)
    await publishTogether(
      root,
      shuffled.map((id) => ({ id, topic: 'test', payload: id })),
    )
    const killed = async (): Promise<void> => {
      const subject = await RelayUnderTest.started(
        root,
        new Broker().publisher({ respond: refusing(new Set(ids), FOR_GOOD) }),
      )
      await subject.hears('dead-lettered', ids.length)
      await subject.relay.stop()
    }
    const dead = createDeadLetters({ database: root.database })
    await killed()
    expect((await dead.redrive({ topic: 'test' })).map(({ id }) => id)).toEqual(ids)
    expect(await dead.list()).toEqual([])
    await killed()
    expect((await dead.discard({ topic: 'test' })).map(({ id }) => id)).toEqual(ids)
    expect(await outbox.parked()).toEqual([])
  })
})

import { describe, expect, test } from 'vitest'
import { SchemaError, type DeadLetterFilter } from '@txbox/core'
import { connectedPortsOf } from '@txbox/core/internal'
import { createDeadLetters } from '@txbox/relay'
import { Broker, refusing, rejected } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import {
  messagesOf,
  publishAll,
  publishTogether,
  RelayUnderTest,
} from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget, type Root } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const FOR_GOOD = { retryable: false }
const everything: DeadLetterFilter = {
  ids: undefined,
  topic: undefined,
  type: undefined,
  key: undefined,
  after: undefined,
}

/** Publishes one message for each id, and lets a relay make dead letters of all of them. */
async function kill(root: Root, ids: readonly string[]): Promise<void> {
  await publishTogether(
    root,
    ids.map((id, n) => ({ id, topic: 'test', payload: n })),
  )
  const subject = await RelayUnderTest.started(
    root,
    new Broker().publisher({ respond: refusing(new Set(ids), FOR_GOOD) }),
  )
  await subject.hears('dead-lettered', ids.length)
  await subject.relay.stop()
}

describe('dead letters of one id', () => {
  const target = useTarget()
  const outbox = useOutboxTarget(target)
  const root = useRoot(target, mainKind(target))

  test('O5 no dead letter is lost between two pages of the list', async () => {
    await kill(root, ['a', 'b', 'b', 'b', 'c', 'c', 'd'])
    const dead = createDeadLetters({ database: root.database })
    const pages: string[][] = []
    for (let after: string | undefined; ;) {
      const page = (await dead.list({ limit: 2, after })).map(({ id }) => id)
      if (page.length === 0) break
      pages.push(page)
      after = page.at(-1)
    }
    expect(pages).toEqual([['a', 'b', 'b', 'b'], ['c', 'c'], ['d']])
  })

  test('O5 redrive and discard reach all dead letters of the id, whatever fits on a page', async () => {
    const dead = createDeadLetters({ database: root.database })
    const ids = Array.from({ length: 2100 }, () => 'same')
    await kill(root, ids)
    expect((await dead.redrive({ ids: ['same'] })).length).toBe(ids.length)
    expect(await dead.list()).toEqual([])
    const subject = await RelayUnderTest.started(
      root,
      new Broker().publisher({ respond: refusing(new Set(ids), FOR_GOOD) }),
    )
    await subject.hears('dead-lettered', ids.length)
    await subject.relay.stop()
    expect((await dead.discard({ topic: 'test' })).length).toBe(ids.length)
    expect(await outbox.parked()).toEqual([])
  })
})

describe('parked messages', () => {
  const target = useTarget()
  const outbox = useOutboxTarget(target)
  const root = useRoot(target, mainKind(target))
  const [bad, other] = keysOfOneShard(2) as [string, string]

  test('O4 discarding the parked head of a key lets the key continue; scheduled messages and dead letters stay', async () => {
    const store = connectedPortsOf('test', root.database).deadLetters({ statementTimeoutMs: 10_000 })
    await kill(root, ['dead'])
    const [scheduled] = await publishAll(root, [
      { topic: 'test', payload: 0, deliverAt: new Date(Date.now() + 3_600_000) },
    ])
    const ids = await publishAll(root, messagesOf(bad, 4))
    const [unkeyed] = await publishAll(root, [{ topic: 'alone', key: other, payload: 1 }])
    const refused = new Set([ids[0]!, unkeyed!])
    const broker = new Broker()
    const first = await RelayUnderTest.started(
      root,
      broker.publisher({
        respond: (call) =>
          call.messages.map((message) => (refused.has(message.id) ? rejected() : call.accept(message))),
      }),
      { retry: { attempts: 9, delayMs: () => 600_000 } },
    )
    await first.hears('parked', 2)
    await until(
      async () => (await outbox.parked()).length === 7,
      async () => `all are parked: ${JSON.stringify(await outbox.parked())}`,
    )
    await first.relay.stop()

    const parked = await store.listParked(everything, 100)
    expect(parked.messages.map(({ id }) => id).toSorted()).toEqual([...ids, unkeyed!].toSorted())
    expect(parked.messages.find(({ id }) => id === ids[0])).toMatchObject({
      attempts: 1,
      error: expect.stringContaining('refused'),
    })
    // Discards a message in the middle of its key, then the head: then the message behind them is due.
    const discard = async (filter: Partial<DeadLetterFilter>): Promise<readonly string[]> =>
      (await store.discardParked({ ...everything, ...filter }, 2)).messages.map(({ id }) => id)
    expect(await discard({ ids: [ids[1]!, 'dead', scheduled!] })).toEqual([ids[1]])
    expect(
      (await outbox.parked()).filter(({ id, due }) => due && ids.includes(id)).map(({ id }) => id),
    ).toEqual([ids[0]])
    expect(await discard({ ids: [ids[0]!] })).toEqual([ids[0]])
    const due = (await outbox.parked()).filter((row) => row.due && ids.includes(row.id))
    expect(due.map(({ id }) => id)).toEqual([ids[2]])
    const subject = await RelayUnderTest.started(root, broker.publisher())
    await broker.received(2)
    await subject.relay.stop()
    expect(broker.ids()).toEqual([ids[2], ids[3]])
    expect(new Set((await outbox.parked()).map(({ id }) => id))).toEqual(
      new Set(['dead', scheduled, unkeyed]),
    )
  })
})

describe('with tables of a later revision', () => {
  const target = useTarget()
  const outbox = useOutboxTarget(target)
  const root = useRoot(target, mainKind(target))

  test('O5 dead letters are neither redriven nor discarded', async () => {
    await kill(root, ['a', 'b'])
    await target.pretendRevision('later')
    const fresh = target.open(mainKind(target))
    const dead = createDeadLetters({ database: fresh.database })
    await expect(dead.redrive({ topic: 'test' })).rejects.toThrow(SchemaError)
    await expect(dead.discard({ topic: 'test' })).rejects.toThrow(SchemaError)
    await expect(dead.list()).rejects.toThrow(SchemaError)
    await fresh.close()
    const parked = (await outbox.parked()).map(({ id, dead: isDead }) => [id, isDead] as const)
    expect(Object.fromEntries(parked)).toEqual({ a: true, b: true })
  })
})

import { expect, test } from 'vitest'
import type { ConnectedPorts } from '@txbox/core/ports'
import { portsOf } from '@txbox/core/internal'
import { Broker, rejected } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
// This concerns the publisher, so the library of the database makes no difference.
const root = useRoot(target, mainKind(target))
const PARKED = target.engine === 'postgres' ? 'txbox.parked' : 'txbox_parked'
const [away, other] = keysOfOneShard(2) as [string, string]

test('O15 an unavailable destination delays only its own messages, costs no attempts, and causes no dead letter', async () => {
  const ids = await publishAll(root, messagesOf(away, 2))
  const broker = new Broker()
  let tries = 0
  const publisher = broker.publisher({
    respond: (call) =>
      call.messages.map((message) => {
        if (message.key !== away || (tries += 1) > 5) return call.accept(message)
        expect(message.attempt).toBe(1)
        return {
          status: 'rejected',
          error: new Error('away'),
          retryable: false,
          counted: false,
          retryAfterMs: 20,
        }
      }),
  })
  const subject = await RelayUnderTest.started(root, publisher, { retry: { attempts: 1, delayMs: () => 1 } })
  await subject.hears('parked')
  const others = await publishAll(root, messagesOf(other, 3))
  await broker.received(5)
  await outbox.settled()
  expect(broker.ids(away)).toEqual(ids)
  expect(broker.ids(other)).toEqual(others)
  expect(subject.heard('dead-lettered')).toEqual([])
  expect(new Set(subject.heard('parked').map(({ attempt }) => attempt))).toEqual(new Set([0]))
})

test('N1 a parked message keeps its last ten errors with their causes, the newest last', async () => {
  const [id] = await publishAll(root, messagesOf(away, 1))
  const broker = new Broker()
  const publisher = broker.publisher({
    respond: (call) =>
      call.messages.map(({ attempt }) =>
        rejected({ error: new Error(`attempt ${attempt}`, { cause: new Error('the reason behind it') }) }),
      ),
  })
  const subject = await RelayUnderTest.started(root, publisher, { retry: { attempts: 12, delayMs: () => 1 } })
  await subject.hears('dead-lettered')
  const [row] = await outbox.sql(`select errors, error from ${PARKED}`, [])
  const errors = JSON.parse(String(row!['errors'])) as { at: string; attempt: number; error: string }[]
  expect(errors.map(({ attempt }) => attempt)).toEqual([3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
  expect(errors.at(-1)!.error).toBe('attempt 12: the reason behind it')
  expect(String(row!['error'])).toBe('attempt 12: the reason behind it')
  expect(new Date(errors[0]!.at).getTime()).toBeGreaterThan(Date.now() - 60_000)
  const store = (portsOf('test', root.database) as ConnectedPorts).deadLetters({ statementTimeoutMs: 5000 })
  const [kept] = await store.errors(id!, false, 10)
  expect(kept).toEqual(errors.map(({ at, attempt, error }) => ({ at: new Date(at), attempt, error })))
  expect(await store.errors(id!, true, 10)).toEqual([])
})

test('O4 a key whose head was deleted by hand continues when its shard is taken', async () => {
  const [head, ...rest] = await publishAll(root, messagesOf(away, 3))
  const broker = new Broker()
  const publisher = broker.publisher({
    ordering: 'per-key',
    respond: (call) =>
      call.messages.map((message, n) => {
        if (message.id === head) return rejected({ retryAfterMs: 600_000 })
        return n > 0 && call.messages[0]!.id === head ? { status: 'skipped' } : call.accept(message)
      }),
  })
  const subject = await RelayUnderTest.started(root, publisher)
  await subject.hears('parked')
  await subject.relay.stop()
  await outbox.sql(`delete from ${PARKED} where id = ?`, [head])
  expect((await outbox.parked()).filter(({ due }) => due)).toEqual([])
  await RelayUnderTest.started(root, publisher)
  await outbox.settled()
  expect(broker.ids(away)).toEqual(rest)
})

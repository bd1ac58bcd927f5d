import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createRelay, InvalidOptionError, type Relay } from '@txbox/relay'
import { Broker, Gate, holding, rejected, type Respond } from '../../support/worlds/broker.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { mainKind, onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'
import { undisturbed } from '../../support/worlds/undisturbed.ts'
import { UnreliableNetwork } from '../../support/worlds/unreliable-network.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
/** So long that no relay gets a shard by waiting. */
const LONG_LEASE_MS = 600_000
/** The accepted delay after a deadline, on a busy machine. */
const SLACK_MS = 500

/** Resolves only when the signal is aborted. */
function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

/** The time of a stop, without the time that a busy machine costs. */
async function timeOfStop(relay: Relay, timeoutMs?: number): Promise<number> {
  const { tookMs } = await undisturbed(target, () => relay.stop(timeoutMs === undefined ? {} : { timeoutMs }))
  return tookMs
}

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)

  test('O10 stop aborts the call that is in flight when a drain has ended, and releases all leases', async () => {
    const broker = new Broker()
    let isAborted = false
    const respond: Respond = async (call) => {
      if (call.messages.some(({ key }) => key === 'late')) {
        await untilAborted(call.signal)
        isAborted = true
        throw call.signal.reason
      }
      await sleep(700)
      return call.acceptAll()
    }
    const relay = createRelay({
      database: root.database,
      publisher: broker.publisher({ ordering: 'per-key', respond }),
      leaseMs: 60_000,
      logger: false,
    })
    await publishAll(root, messagesOf('slow', 1))
    const drained = relay.drain()
    await sleep(250)
    // The shard of this message has been seen empty. The drain ends before its call does.
    await publishAll(root, messagesOf('late', 1))
    await until(
      async () => broker.calls.length === 2,
      () => 'both calls have begun',
    )
    await sleep(700)
    expect(isAborted).toBe(false)
    expect(await timeOfStop(relay, 1500)).toBeLessThan(1500 + SLACK_MS)
    expect(isAborted).toBe(true)
    expect(await outbox.heldLeases()).toBe(0)
    await drained
    expect((await outbox.backlog()).map(({ key }) => key)).toEqual(['late'])
  })

  test('O10 stop finishes the batch in flight, settles it, begins no other, and releases all leases', async () => {
    const ids = await publishAll(root, messagesOf('a', 10))
    const broker = new Broker()
    const gate = new Gate()
    let hurried: boolean | undefined
    const respond: Respond = async (call) => {
      await gate.pass()
      hurried = call.signal.aborted
      return call.acceptAll()
    }
    const publisher = broker.publisher({ ordering: 'per-key', respond })
    const options = { batchSize: 4, leaseMs: LONG_LEASE_MS }
    const subject = await RelayUnderTest.started(root, publisher, options)
    await gate.reached()
    const stopping = subject.relay.stop()
    // The relay releases idle shards at once, and waits for the busy shard.
    await until(
      async () => (await outbox.leases()).length === 1,
      () => 'one shard is left',
    )
    gate.open()
    await stopping
    expect(broker.calls.length).toBe(1)
    expect(hurried).toBe(false)
    expect(broker.ids()).toEqual(ids.slice(0, 4))
    expect((await outbox.backlog()).map(({ id }) => id)).toEqual(ids.slice(4))
    expect(await outbox.heldLeases()).toBe(0)
    expect(publisher.closed).toBe(1)
    expect(new Set(subject.heard('lease-lost').map(({ reason }) => reason))).toEqual(new Set(['stopped']))
    expect(subject.heard('lease-lost').length).toBe(16)
    await subject.relay.stopped
  })

  test('O10 if a publisher hangs, stop aborts its signal, resolves by its deadline, and leaves no lease', async () => {
    const ids = await publishAll(root, [...messagesOf('a', 3), ...messagesOf('b', 3)])
    const broker = new Broker()
    const gate = new Gate()
    const publisher = broker.publisher({ owner: 'hangs', ordering: 'per-key', respond: holding(gate) })
    const subject = await RelayUnderTest.started(root, publisher, { leaseMs: LONG_LEASE_MS })
    await gate.reached(2)
    expect(broker.calls.map(({ signal }) => signal.aborted)).toEqual([false, false])
    const begun = performance.now()
    expect(await timeOfStop(subject.relay, 1500)).toBeLessThan(1500 + SLACK_MS)
    expect(performance.now() - begun).toBeGreaterThan(100)
    expect(broker.calls.map(({ signal }) => signal.aborted)).toEqual([true, true])
    await subject.relay.stopped
    expect(await outbox.heldLeases()).toBe(0)

    // The next relay takes over at once, long before the lease would have expired.
    const next = new Broker()
    const nextGate = new Gate()
    const nextPublisher = next.publisher({ owner: 'next', ordering: 'per-key', respond: holding(nextGate) })
    const successor = await RelayUnderTest.started(root, nextPublisher, { leaseMs: LONG_LEASE_MS })
    await nextGate.reached(2)
    // An answer of the hanging publisher is ignored now.
    gate.open()
    await broker.received(6)
    expect((await outbox.backlog()).length).toBe(6)
    nextGate.open()
    await next.received(6)
    await successor.relay.drain()
    expect(next.ids().sort()).toEqual([...ids].sort())
    expect(await outbox.backlog()).toEqual([])
  })

  test('O10 after its signal is aborted, the publisher gets no more messages of the batch', async () => {
    const ids = await publishAll(root, messagesOf('a', 3))
    const broker = new Broker()
    const gate = new Gate()
    const obedient: Respond = async (call) => {
      const results = call.acceptAll()
      void gate.pass()
      if (!call.signal.aborted) await untilAborted(call.signal)
      return results
    }
    const subject = await RelayUnderTest.started(root, broker.publisher({ respond: obedient }))
    await gate.reached()
    await subject.relay.stop({ timeoutMs: 1500 })
    expect(broker.ids()).toEqual(ids.slice(0, 1))
    expect((await outbox.backlog()).map(({ id }) => id)).toEqual(ids.slice(1))
  })

  test('O10 messages that a publisher published before it obeyed the signal are settled; the others are left for the next relay', async () => {
    const ids = await publishAll(root, messagesOf('a', 4))
    const broker = new Broker()
    const gate = new Gate()
    const obedient: Respond = async (call) => {
      const accepted = call.accept(call.messages[0]!)
      void gate.pass()
      await untilAborted(call.signal)
      return [accepted, rejected(), ...call.messages.slice(2).map(() => ({ status: 'skipped' }) as const)]
    }
    const publisher = broker.publisher({ ordering: 'per-key', respond: obedient })
    const subject = await RelayUnderTest.started(root, publisher, {
      leaseMs: LONG_LEASE_MS,
      retry: { attempts: 2, delayMs: () => 1 },
    })
    await gate.reached()
    await subject.relay.stop({ timeoutMs: 2000 })
    expect((await outbox.parked()).map(({ id }) => id)).toEqual(ids.slice(1, 2))
    expect((await outbox.backlog()).map(({ id }) => id)).toEqual(ids.slice(2))
    expect(await outbox.heldLeases()).toBe(0)
    await RelayUnderTest.started(root, broker.publisher({ owner: 'next' }))
    await outbox.settled()
    expect(broker.ids()).toEqual(ids)
  })

  test('O10 a stopped relay leaves no lease, and no connection outside its pool', async () => {
    const before = await outbox.connections()
    const own = target.open(kind)
    const subject = await RelayUnderTest.started(own, new Broker().publisher())
    await subject.hears('lease-acquired', 16)
    await subject.relay.stop()
    expect(await outbox.heldLeases()).toBe(0)
    await own.close()
    await until(
      async () => (await outbox.connections()) <= before,
      async () => `${await outbox.connections()} connections; before there were ${before}`,
    )
  })
})

describe('on one kind of handle', () => {
  const kind = mainKind(target)
  const root = useRoot(target, kind)

  test.for([
    [
      'an idle relay that looks once an hour',
      { pollIntervalMs: { min: 3_600_000, max: 3_600_000 } },
      undefined,
    ],
    ['a relay that waits for its publisher to come back', {}, 'down'],
    [
      'a relay with messages that wait for another attempt',
      { retry: { attempts: 9, delayMs: () => 600_000 } },
      'refuses',
    ],
  ] as const)('O10 %s stops at once', async ([, options, behaviour]) => {
    await publishAll(root, messagesOf('a', 1))
    const broker = new Broker()
    const respond: Respond = (call) => {
      if (behaviour === 'down') throw new Error('down')
      if (behaviour === undefined) return call.acceptAll()
      return call.messages.map(() => rejected())
    }
    const subject = await RelayUnderTest.started(root, broker.publisher({ respond }), {
      leaseMs: LONG_LEASE_MS,
      ...options,
    })
    await broker.called(behaviour === 'down' ? 5 : 1)
    expect(await timeOfStop(subject.relay)).toBeLessThan(SLACK_MS)
    expect(await outbox.heldLeases()).toBe(0)
  })

  test('O10 stop with a timeout of 0 aborts the signal and resolves at once', async () => {
    await publishAll(root, messagesOf('a', 1))
    const broker = new Broker()
    const gate = new Gate()
    const subject = await RelayUnderTest.started(root, broker.publisher({ respond: holding(gate) }))
    await gate.reached()
    expect(await timeOfStop(subject.relay, 0)).toBeLessThan(SLACK_MS)
    expect(broker.calls[0]!.signal.aborted).toBe(true)
    gate.open()
  })

  test('O10 stop resolves by its deadline even if the database does not answer', async () => {
    const network = await UnreliableNetwork.to(target.address())
    const remote = target.open(kind, { through: network })
    onTestFinished(async () => {
      network.thaw()
      await network.close()
      await remote.close()
    })
    const subject = await RelayUnderTest.started(remote, new Broker().publisher())
    await subject.hears('lease-acquired', 16)
    network.freeze()
    expect(await timeOfStop(subject.relay, 400)).toBeLessThan(400 + SLACK_MS)
    await subject.relay.stopped
  })

  test.for(['hangs', 'throws', 'rejects'] as const)(
    'O10 a publisher whose close %s does not keep the relay from stopping',
    async (how) => {
      const subject = new RelayUnderTest(root, {
        publish: async () => [],
        close() {
          if (how === 'throws') throw new Error('close failed')
          return how === 'hangs' ? new Promise(() => undefined) : Promise.reject(new Error('close failed'))
        },
      })
      await subject.relay.start()
      // The close that throws or rejects ends the stop long before its deadline, the one that hangs at the deadline.
      const timeoutMs = how === 'hangs' ? 600 : 5000
      expect(await timeOfStop(subject.relay, timeoutMs)).toBeLessThan((how === 'hangs' ? 600 : 0) + SLACK_MS)
      await subject.relay.stopped
      if (how !== 'hangs')
        expect(subject.heard('error').map(({ error }) => String(error))).toEqual(['Error: close failed'])
      expect(await outbox.heldLeases()).toBe(0)
    },
  )

  test('O10 stop may be called twice, and before start; a stopped relay does not start again', async () => {
    const publisher = new Broker().publisher()
    const subject = await RelayUnderTest.started(root, publisher)
    await Promise.all([subject.relay.stop(), subject.relay.stop()])
    await subject.relay.stop()
    expect(publisher.closed).toBe(1)
    await expect(subject.relay.start()).rejects.toThrow(/stopped/)
    await expect(subject.relay.drain()).rejects.toThrow(/stopped/)
    const unused = new RelayUnderTest(root, publisher)
    await unused.relay.stop()
    await unused.relay.stopped
    await expect(unused.relay.start()).rejects.toThrow(/stopped/)
  })

  test('O10 a relay that is stopped while it starts ends stopped, and holds no lease', async () => {
    const subject = new RelayUnderTest(root, new Broker().publisher(), { leaseMs: LONG_LEASE_MS })
    const starting = subject.relay.start()
    await subject.relay.stop()
    await starting.catch(() => undefined)
    await subject.relay.stopped
    expect(await outbox.heldLeases()).toBe(0)
  })

  test('O10 the signal of the options stops the relay', async () => {
    const controller = new AbortController()
    const subject = await RelayUnderTest.started(root, new Broker().publisher(), {
      signal: controller.signal,
    })
    await subject.hears('lease-acquired', 16)
    controller.abort()
    await subject.relay.stopped
    expect(await outbox.heldLeases()).toBe(0)
    const late = new RelayUnderTest(root, new Broker().publisher(), { signal: AbortSignal.abort() })
    await expect(late.relay.start()).rejects.toThrow()
    await late.relay.stopped
  })

  test('O10 await using stops the relay', async () => {
    const publisher = new Broker().publisher()
    const ids = await publishAll(root, messagesOf('a', 1))
    expect(ids.length).toBe(1)
    {
      await using relay = createRelay({ database: root.database, publisher })
      await relay.start()
      await relay.drain()
    }
    expect(publisher.closed).toBe(1)
    expect(await outbox.heldLeases()).toBe(0)
    expect(await outbox.backlog()).toEqual([])
  })

  test.for([[{ timeoutMs: -1 }], [{ timeoutMs: Number.NaN }], [{ timeoutMs: '5' }], [{ timeout: 5 }]])(
    'O10 stop refuses %j, and a later correct call stops the relay',
    async ([options]) => {
      const subject = await RelayUnderTest.started(root, new Broker().publisher())
      await expect(subject.relay.stop(options as never)).rejects.toThrow(InvalidOptionError)
      await subject.relay.stop()
      expect(await outbox.heldLeases()).toBe(0)
    },
  )
})

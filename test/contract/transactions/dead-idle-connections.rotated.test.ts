import { setTimeout as sleep } from 'node:timers/promises'
import type { Pool } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { DatabaseUnavailableError } from '@txbox/core'
import { Broker } from '../../support/worlds/broker.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { QueueStoreUnderTest } from '../../support/subjects/queue-store-under-test.ts'
import {
  messagesOf,
  publishAll,
  RelayUnderTest,
  withStatementTimeout,
} from '../../support/subjects/relay-under-test.ts'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import { kindsOfRoots, useTarget, type HandleKind, type Root } from '../../support/engines/target.ts'
import { UnreliableNetwork } from '../../support/worlds/unreliable-network.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const DRIVERS: ReadonlySet<string> = new Set(['pg', 'mysql2'])
const outbox = useOutboxTarget(target)
const IDLE = 20
/** A statement without an answer fails after this time. */
const LIMIT_MS = 1500
/** More than one limit, and far less than a limit for each connection. */
const STANDSTILL_MS = 5500

/** A root with idle connections that can die, and a root whose network cannot fail. */
async function remoteRoot(kind: HandleKind) {
  const network = await UnreliableNetwork.to(target.address())
  const remote = target.open(kind, { through: network, max: IDLE + 4 })
  const direct = target.open(kind)
  await Promise.all([remote.ready?.(), direct.ready?.()])
  onTestFinished(async () => {
    await network.close()
    await Promise.all([remote.close(), direct.close()])
  })
  return { network, remote, direct }
}

async function openIdle(root: Root, count: number): Promise<void> {
  const transactions = await Promise.all(Array.from({ length: count }, () => root.begin()))
  for (const transaction of transactions) await transaction.rollback()
}

function idleCount({ db }: Root): number {
  const { idleCount, pool } = db as Partial<Pool> & { pool?: { _freeConnections: { length: number } } }
  return idleCount ?? pool!._freeConnections.length
}

/** Repeats the work, as a consumer does. @returns how many milliseconds passed before it succeeded */
async function untilItSucceeds(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  for (;;) {
    try {
      await work()
      return performance.now() - began
    } catch {
      await sleep(100)
    }
  }
}

/** The roots of pools. Kysely, the main library on MariaDB, hides the idle connections of its pool. */
function kindsOfPools(): readonly HandleKind[] {
  const isPool = ({ library }: HandleKind): boolean => library !== 'kysely'
  const kinds = kindsOfRoots(target).filter(isPool)
  return kinds.length > 0 ? kinds : target.kinds.filter(isPool).slice(0, 1)
}

describe.each(kindsOfPools())('$name', (kind) => {
  test('O10 idle connections that have died silently cost a relay about the limit of one statement in total', async () => {
    const { network, remote, direct } = await remoteRoot(kind)
    const broker = new Broker()
    const subject = await RelayUnderTest.started(
      withStatementTimeout(remote, LIMIT_MS, () => undefined),
      broker.publisher(),
      { leaseMs: 30_000 },
    )
    await publishAll(direct, messagesOf('a', 1))
    await broker.received(1)
    await outbox.settled()
    await openIdle(remote, IDLE)
    network.abandon()
    const began = performance.now()
    await publishAll(direct, messagesOf('a', 1, 2))
    await broker.received(2, 60_000)
    await outbox.settled()
    expect(performance.now() - began, subject.describeErrors()).toBeLessThan(STANDSTILL_MS)
  })

  test('Q19 idle connections that have died silently cost the receives of a stored queue about one limit in total', async () => {
    const { network, remote, direct } = await remoteRoot(kind)
    const store = new QueueStoreUnderTest(remote, 60_000, LIMIT_MS)
    const sender = new QueueStoreUnderTest(direct)
    await sender.send(`${kind.name} a`)
    expect(await store.receive()).toHaveLength(1)
    await sender.send(`${kind.name} b`)
    await openIdle(remote, IDLE)
    network.abandon()
    const stoodStillMs = await untilItSucceeds(async () => expect(await store.receive()).toHaveLength(1))
    expect(stoodStillMs).toBeLessThan(STANDSTILL_MS)
  })

  // The transactions of a library, and its pool, are its own.
  if (!DRIVERS.has(kind.library)) return

  test('I10 idle connections that have died silently cost transactions that are given up about one limit in total', async () => {
    const { network, remote } = await remoteRoot(kind)
    await remote.database.transact((tx) => target.effect(tx, `${kind.name} before the outage`))
    await openIdle(remote, IDLE)
    network.abandon()
    const stoodStillMs = await untilItSucceeds(() =>
      remote.database.transact((tx) => target.effect(tx, `${kind.name} after the outage`), {
        signal: AbortSignal.timeout(LIMIT_MS),
      }),
    )
    expect(await target.effects(`${kind.name} after the outage`)).toBe(1)
    // On MySQL, nothing but a BEGIN without an answer shows that the connection is dead: the limit is 5 s.
    expect(stoodStillMs).toBeLessThan(STANDSTILL_MS + (target.engine === 'postgres' ? 0 : 5000))
  })

  test('O19 a statement without an answer costs no connection that answers, and none that is in use', async () => {
    const { proxy, through } = await rootThroughProxy(target, kind)
    const store = new QueueStoreUnderTest(through, 60_000, 300)
    await store.receive()
    const inUse = await through.begin()
    await target.effect(inUse.tx, `${kind.name} in use`)
    await openIdle(through, 3)
    const { opened } = proxy
    const { reached, letGo } = proxy.hold(/queue/i)
    const receiving = store.receive()
    await reached
    proxy.countFromHere()
    await expect(receiving).rejects.toThrow(DatabaseUnavailableError)
    // The connection of the statement is lost. Two are left, are asked for an answer, and are used again.
    await until(
      async () => proxy.roundTrips === 2 && idleCount(through) === 2,
      () => `2 answers, 2 idle connections; there are ${proxy.roundTrips}, ${idleCount(through)}`,
    )
    await openIdle(through, 2)
    await store.receive()
    expect(proxy.opened).toBe(opened)
    await inUse.commit()
    expect(await target.effects(`${kind.name} in use`)).toBe(1)
    letGo()
  })
})

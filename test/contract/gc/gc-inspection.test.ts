import { beforeAll, describe, expect, test } from 'vitest'
import type { Finding, InspectionStore } from '@txbox/core/ports'
import { connectedPortsOf } from '@txbox/core/internal'
import { createGarbageCollector } from '@txbox/gc'
import { useGarbage } from '../../support/subjects/garbage.ts'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll } from '../../support/subjects/relay-under-test.ts'
import { QueueUnderTest } from '../../support/subjects/queue-under-test.ts'
import { mainKind, onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const garbage = useGarbage(target)
const outbox = useOutboxTarget(target)

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)
  const inspection = (): InspectionStore => connectedPortsOf('test', root.database).inspection()

  test('status counts the rows, and reports the leases and the last collection', async () => {
    expect(await inspection().status()).toMatchObject({
      backlog: { count: 0, atLeast: false },
      oldestMs: undefined,
      leases: [],
    })
    await publishAll(root, messagesOf('k', 3))
    await garbage.expiredClaims('c', 7)
    await garbage.park(
      { id: 'head', key: 'k', dueAgo: 1 },
      { id: 'next', key: 'k' },
      { id: 'scheduled', deliverAgo: -60, dueAgo: -60 },
      { id: 'dead', diedAgo: 100 * 86_400 },
    )
    await target.sql(
      `insert into ${garbage.table('leases')} (name, owner, term, expires_at) values ('outbox/00', 'me', 3, ${
        target.engine === 'postgres'
          ? "clock_timestamp() + interval '1 minute'"
          : 'utc_timestamp(6) + interval 1 minute'
      })`,
    )
    const figures = await inspection().status()
    expect(figures).toMatchObject({
      backlog: { count: 3, atLeast: false },
      parked: { count: 2 },
      scheduled: { count: 1 },
      dead: { count: 1 },
      expired: { count: 7 },
      leases: [{ name: 'outbox/00', owner: 'me', term: 3n }],
    })
    expect(figures.oldestMs).toBeGreaterThanOrEqual(0)
    expect(figures.leases[0]!.remainingMs).toBeGreaterThan(30_000)
    expect(figures.inboxBytes).toBeGreaterThan(0)

    expect(await inspection().collectable(50 * 86_400_000)).toEqual({
      inbox: { count: 7, atLeast: false },
      deadLetters: { count: 1, atLeast: false },
      redrives: { count: 0, atLeast: false },
      bufferedDeadLetters: { count: 0, atLeast: false },
      handled: { count: 0, atLeast: false },
    })
    expect(await inspection().collectable(Infinity)).toMatchObject({ deadLetters: { count: 0 } })
    await createGarbageCollector({ database: root.database }).runOnce()
    const { lastCollection } = await inspection().status()
    expect(lastCollection).toMatchObject({ inbox: 7, deadLetters: 1 })
    expect(Math.abs(lastCollection!.finishedAt.getTime() - (await target.now()).getTime())).toBeLessThan(
      20_000,
    )
  })

  test('blockingKeys names the head of each blocked key, and lists keys with the most waiting messages first', async () => {
    await garbage.park(
      { id: 'a1', key: 'a', dueAgo: 1 },
      { id: 'a2', key: 'a' },
      { id: 'b1', key: 'bö', dueAgo: 1 },
      { id: 'b2', key: 'bö' },
      { id: 'b3', key: 'bö' },
      { id: 'unkeyed', dueAgo: 1 },
    )
    expect(await inspection().blockingKeys(10)).toEqual([
      { key: 'bö', topic: 't', id: 'b1', attempts: 0, waiting: 2, error: undefined },
      { key: 'a', topic: 't', id: 'a1', attempts: 0, waiting: 1, error: undefined },
    ])
    expect((await inspection().blockingKeys(1)).length).toBe(1)
  })

  test('queues counts what is due, waits, is delayed, is in flight and is dead in each queue', async () => {
    expect(await inspection().queues(10)).toEqual([])
    const [one, two, dead] = ["it's", 'ö', 'a'].map((name) => new QueueUnderTest(target, root, { name }))
    await one!.send(...Array.from({ length: 4 }, () => ({ key: 'k' })), { id: 'unkeyed' })
    await one!.send({ deliverAt: new Date(Date.now() + 3_600_000) })
    for (const received of await one!.receive()) {
      if (received.message.id === 'unkeyed') await one!.queue.release(received, { delayMs: 600_000 })
    }
    await one!.send({}, { key: 'another' })
    await two!.send({ key: 'k' }, { key: 'k' })
    await two!.queue.delete(await two!.receiveOne())
    await dead!.send({})
    await dead!.queue.bury(await dead!.receiveOne(), { error: 'no' })
    const figures = await inspection().queues(10)
    const counts = figures.map(({ name, due, waiting, delayed, inFlight, dead: died }) => [
      name,
      ...[due, waiting, delayed, inFlight, died].map(({ count }) => count),
    ])
    expect(counts).toEqual([
      ['a', 0, 0, 0, 0, 1],
      ["it's", 2, 3, 2, 1, 0],
      ['ö', expect.any(Number), expect.any(Number), 0, 0, 0],
    ])
    // Of the second queue, one message is left, and what stands for the handled one is not a message.
    expect(Number(counts[2]![1]) + Number(counts[2]![2])).toBe(1)
    expect(figures[0]!.oldestMs).toBeUndefined()
    expect(figures[1]!.oldestMs).toBeLessThan(60_000)
    expect(await inspection().queues(1)).toHaveLength(1)
  })

  test('queues reports the age of the oldest due message, with a key or without', async () => {
    for (const [name, sent] of Object.entries({ keyed: { key: 'k' }, unkeyed: {} })) {
      const subject = new QueueUnderTest(target, root, { name })
      await subject.send(sent)
      const figures = await inspection().queues(10)
      expect(figures.find((each) => each.name === name)?.oldestMs, name).toBeGreaterThanOrEqual(0)
    }
  })

  test('diagnose finds fresh tables in order, and reports the transaction that keeps deleted rows', async () => {
    const findings = await inspection().diagnose({ longTransactionMs: 3_600_000 })
    expect(findings.filter(({ verdict }) => verdict === 'problem')).toEqual([])
    expect(findings.find(({ check }) => check === 'indexes')?.verdict).toBe('ok')
    const old = await root.begin()
    await old.exec('select count(*) from effects')
    const horizon = async (): Promise<Finding | undefined> =>
      (await inspection().diagnose({ longTransactionMs: 0 })).find(({ check }) => check.endsWith('horizon'))
    // At READ COMMITTED an idle transaction does not hold back the vacuum horizon on PostgreSQL.
    if (target.engine !== 'postgres') {
      // InnoDB refreshes its list of transactions only when it was not queried for a tenth of a second.
      await until(
        async () => {
          await new Promise((resolve) => setTimeout(resolve, 150))
          return /connection \d+ for/.test((await horizon())?.found ?? '')
        },
        async () => `the open transaction is reported: ${JSON.stringify(await horizon())}`,
      )
    }
    expect((await horizon())?.verdict).not.toBe('problem')
    await old.rollback()
  })

  test('status and diagnose neither wait for an open transaction nor block it', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    await inspection().status()
    await inspection().blockingKeys(5)
    await inspection().diagnose({ longTransactionMs: 60_000 })
    await transaction.commit()
    expect(await subject.effects()).toBe(1)
    expect(await outbox.backlogSize()).toBe(0)
  })
})

describe('a schema or prefix with capitals, quotes and hyphens', () => {
  const where = `It's "My" - \`own\``
  const kind = mainKind(target)
  beforeAll(() => target.migrate({ schema: where }))

  test('such a schema or prefix is inspected like any other', async () => {
    const root = target.open(kind, { schema: where })
    const inspection = connectedPortsOf('test', root.database).inspection()
    expect(await inspection.status()).toMatchObject({ backlog: { count: 0 }, claims: expect.any(Number) })
    const findings = await inspection.diagnose({ longTransactionMs: 60_000 })
    expect(findings.filter(({ verdict }) => verdict === 'problem')).toEqual([])
    expect(await createGarbageCollector({ database: root.database }).runOnce()).toMatchObject({ failures: 0 })
    await root.close()
  })
})

describe('without tables', () => {
  const empty = useTarget({ migrated: false })
  const root = useRoot(empty, mainKind(empty))

  test('diagnose reports the missing tables, and names the command', async () => {
    const findings = await connectedPortsOf('test', root.database)
      .inspection()
      .diagnose({ longTransactionMs: 0 })
    expect(findings.find(({ check }) => check === 'revision')).toMatchObject({
      verdict: 'problem',
      advice: "Run 'npx txbox migrate'.",
    })
  })
})

import { expect, test } from 'vitest'
import type { Finding, InspectionStore } from '@txbox/core/ports'
import { connectedPortsOf } from '@txbox/core/internal'
import { QueueUnderTest } from '../../support/subjects/queue-under-test.ts'
import { mainKind, onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const isPostgres = target.engine === 'postgres'

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)
  const inspection = (): InspectionStore => connectedPortsOf('test', root.database).inspection()
  const stuck = async (subject: QueueUnderTest, limit = 10): Promise<unknown[]> =>
    (await inspection().stuckKeys(limit)).keys
      .filter(({ queue }) => queue === subject.queue.name)
      .map(({ key, id, waiting }) => [key, id, waiting.count])

  test('Q20 a key that goes on is not stuck: due, in flight, delayed, settled without a receive since, or dead', async () => {
    const subject = new QueueUnderTest(target, root)
    await subject.send(...['due', 'handled', 'delayed', 'dead'].flatMap((key) => [{ key }, { key }, { key }]))
    for (const received of await subject.receive()) {
      if (received.key === 'handled') await subject.queue.delete(received)
      if (received.key === 'delayed') await subject.queue.release(received, { delayMs: 600_000 })
      if (received.key === 'dead') await subject.queue.bury(received, { error: 'no' })
    }
    await subject.send({ key: 'due' }, {}, { key: 'scheduled', deliverAt: new Date(Date.now() + 3_600_000) })
    expect(await stuck(subject)).toEqual([])
    const { examined } = await inspection().stuckKeys(10)
    expect(examined.count).toBeGreaterThanOrEqual(4)
    expect(examined.atLeast).toBe(false)
  })

  test('Q20 a key whose messages all wait is stuck, and a message that is sent lets it go on in order', async () => {
    const subject = new QueueUnderTest(target, root, { name: `it's ö ${kind.name}` })
    const [first, second] = await subject.send({ key: "k'ö" }, { key: "k'ö" })
    const [other] = await subject.send({ key: 'another' })
    await subject.sql(`update ${subject.table} set due_at = null where topic = ?`)
    const all = [
      ["k'ö", first, 2],
      ['another', other, 1],
    ]
    expect(await stuck(subject)).toEqual(expect.arrayContaining(all))
    expect(await stuck(subject)).toHaveLength(2)
    expect((await inspection().stuckKeys(1)).keys).toHaveLength(1)
    expect(await subject.receive()).toEqual([])

    // What doctor advises.
    const [third] = await subject.send({ key: "k'ö" })
    expect(await stuck(subject)).toEqual([['another', other, 1]])
    const [received] = await subject.receive()
    expect(received?.message.id).toBe(first)
    await subject.queue.release(received!)
    expect(await subject.drain()).toEqual([first, second, third])
    await subject.queue.purge()
    expect(await stuck(subject)).toEqual([])
  })

  test('Q20 a key whose first message waits is not stuck while a later one is visible', async () => {
    const subject = new QueueUnderTest(target, root)
    const ids = await subject.send({ key: 'k' }, { key: 'k' }, { key: 'k' })
    // As a receiver leaves the key for a moment when a transaction with a lower place commits late.
    for (const id of ids.slice(0, 2)) {
      await subject.sql(`update ${subject.table} set due_at = null where topic = ? and id = '${id}'`)
      expect(await stuck(subject)).toEqual([])
    }
    await subject.sql(`update ${subject.table} set due_at = null where topic = ?`)
    expect(await stuck(subject)).toEqual([['k', ids[0], 3]])
  })
})

const root = useRoot(target, mainKind(target))

const SICKNESSES: readonly (readonly [string, string, string, string, RegExp])[] = isPostgres
  ? [
      ...['due', 'order', 'flight', 'dead', 'dead_id'].map(
        (name) =>
          [
            `index queue_${name}`,
            'indexes',
            `alter index txbox.queue_${name} rename to hidden`,
            `alter index txbox.hidden rename to queue_${name}`,
            new RegExp(`missing or invalid: queue_${name}$`),
          ] as const,
      ),
      [
        'collation of a key',
        'collations',
        'alter table txbox.queue alter order_key type text collate "und-x-icu"',
        'alter table txbox.queue alter order_key type text collate "C"',
        /queue\.order_key has collation/,
      ],
      [
        'sequence of places',
        'order',
        'alter sequence txbox.queue_place cache 50',
        'alter sequence txbox.queue_place cache 1',
        /queue_place has cache 50/,
      ],
    ]
  : [
      ...['due', 'order', 'flight', 'dead', 'id'].map(
        (name) =>
          [
            `index queue_${name}`,
            'indexes',
            `alter table txbox_queue rename index queue_${name} to hidden`,
            `alter table txbox_queue rename index hidden to queue_${name}`,
            new RegExp(`missing: queue.queue_${name}$`),
          ] as const,
      ),
      [
        'type of a key',
        'tables',
        'alter table txbox_queue modify order_key varchar(255)',
        'alter table txbox_queue modify order_key varbinary(1020)',
        /txbox_queue.order_key is varchar/,
      ],
      [
        'trigger',
        'order',
        'create trigger txbox_hurt before insert on txbox_queue for each row set new.attempts = 0',
        'drop trigger txbox_hurt',
        /trigger txbox_hurt of txbox_queue/,
      ],
    ]

test.for(SICKNESSES)('diagnose reports a wrong %s of the queues', async ([, check, hurt, heal, expected]) => {
  const find = async (): Promise<Finding | undefined> =>
    (await connectedPortsOf('test', root.database).inspection().diagnose({ longTransactionMs: 60_000 })).find(
      (finding) => finding.check === check,
    )
  expect(await find()).toMatchObject({ verdict: 'ok' })
  await target.sql(hurt)
  const sick = await find()
  await target.sql(heal)
  expect(sick).toMatchObject({ verdict: 'problem', found: expect.stringMatching(expected) })
  expect(await find()).toMatchObject({ verdict: 'ok' })
})

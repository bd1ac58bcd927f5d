import { setTimeout as pause } from 'node:timers/promises'
import { expect, inject, test } from 'vitest'
import { createConsumer, type InboxMessage } from '@txbox/consumer'
import type { TransactionHandle } from '@txbox/core'
import { connectedPortsOf } from '@txbox/core/internal'
import { queueSource, type Queue, type Received } from '@txbox/queue'
import { Proxy, type KillPhase } from '../../support/worlds/proxy.ts'
import { QueueUnderTest, idsOf, sortedIds } from '../../support/subjects/queue-under-test.ts'
import { mainKind, useRoot, useTarget, type Root } from '../../support/engines/target.ts'

const target = useTarget()
const kind = mainKind(target)
const root = useRoot(target, kind, { max: 4 })
const isQuick = inject('tier') === 'quick'

/**
 * Two messages of the key a and one of the key b, of which the first ones of both keys may have been received; or three
 * messages without a key.
 */
interface Scene {
  readonly subject: QueueUnderTest
  readonly ids: readonly [a1: string, a2: string, b: string]
  readonly received: readonly Received[]
}

/** The process that is killed: the same queue, through connections that end. */
interface Victim {
  readonly queue: Queue<TransactionHandle>
  readonly root: Root
}

interface Action {
  /** Whether the messages are received before, by a process that lives on. */
  readonly isReceived?: boolean
  /** Whether the messages have no key. */
  readonly isUnkeyed?: boolean
  /** Of an action with many requests, only some are tried. @default 1 */
  readonly every?: number
  readonly run: (victim: Victim, scene: Scene) => Promise<unknown>
  /** What must be true then, whatever the statement at which the process was killed. */
  readonly check: (scene: Scene) => Promise<void>
}

/** Handles a message as the documentation says: the transaction of the effect begins with the deletion. */
async function handle(
  queue: Queue<TransactionHandle>,
  root: Pick<Root, 'begin'>,
  each: Received,
): Promise<void> {
  await within(root, async (tx) => {
    await queue.delete(each, { tx })
    await target.effect(tx, `${queue.name} ${each.message.id}`)
  })
}

async function within(
  root: Pick<Root, 'begin'>,
  run: (tx: TransactionHandle) => Promise<void>,
): Promise<void> {
  const work = await root.begin()
  try {
    await run(work.tx)
    await work.commit()
  } catch (error) {
    await work.rollback().catch(() => undefined)
    throw error
  }
}

/** The statement reads many rows: it can be the victim of a deadlock with a statement in flight. */
async function expire(subject: QueueUnderTest): Promise<void> {
  try {
    await subject.expire()
  } catch (error) {
    if (!/deadlock/i.test(String(error))) throw error
    await expire(subject)
  }
}

/** Handles what is left, as the next process does. @returns all effects, in order. */
async function handleRest({ subject }: Scene): Promise<string[]> {
  let deadline = Date.now() + 20_000
  while ((await subject.size()) > 0) {
    if (Date.now() > deadline) throw new Error(`${await subject.size()} messages are never received.`)
    const received = await subject.receive()
    for (const each of received) await handle(subject.queue, root, each)
    if (received.length > 0) {
      deadline = Date.now() + 20_000
      continue
    }
    // A statement in flight may still hold a lock.
    await pause(5)
    await expire(subject)
  }
  const rows = await target.sql('select name from effects where name like ? order by seq', [
    `${subject.queue.name} %`,
  ])
  return rows.map(({ name }) => String(name).slice(subject.queue.name.length + 1))
}

/** Each of these has one effect, and those of a key are in order. */
async function expectAll(scene: Scene, ids: readonly string[]): Promise<void> {
  const effects = await handleRest(scene)
  expect(effects.toSorted()).toEqual(ids.toSorted())
  const [a1, a2] = scene.ids
  expect(effects.filter((id) => id === a1 || id === a2)).toEqual([a1, a2].filter((id) => ids.includes(id)))
}

const first = ({ received, ids }: Scene): Received => received.find(({ message }) => message.id === ids[0])!

const ACTIONS: Readonly<Record<string, Action>> = {
  'receives, and deletes in the transaction of the effect': {
    run: async ({ queue, root: through }) => {
      for (const each of await queue.receive()) await handle(queue, through, each)
    },
    check: (scene) => expectAll(scene, scene.ids),
  },
  'receives messages without a key, and deletes each in the transaction of its effect': {
    isUnkeyed: true,
    run: async ({ queue, root: through }) => {
      for (const each of await queue.receive()) await handle(queue, through, each)
    },
    check: async (scene) => {
      expect((await handleRest(scene)).toSorted()).toEqual(sortedIds(scene.ids))
    },
  },
  'handles batches': {
    run: async ({ queue, root: through }, { ids }) => {
      const consumer = createConsumer({
        ...{ source: queueSource(queue), database: through.database, name: 'batches', logger: false },
        batch: { maxSize: 10, lingerMs: 20 },
        handler: async (tx: TransactionHandle, messages: readonly InboxMessage[]) => {
          for (const { id } of messages) await target.effect(tx, `${queue.name} ${id}`)
        },
      } as never)
      const over = Promise.withResolvers<void>()
      let handled = 0
      consumer.on('handled', () => {
        handled += 1
        if (handled === ids.length) over.resolve()
      })
      for (const event of ['error', 'unavailable', 'lost'] as const) consumer.on(event, () => over.resolve())
      await consumer.start()
      await over.promise
      await consumer.stop({ timeoutMs: 100 })
    },
    check: (scene) => expectAll(scene, scene.ids),
  },
  'redrives a dead letter': {
    isReceived: true,
    run: async ({ queue }, scene) => {
      await scene.subject.queue.bury(first(scene), { error: 'never' })
      await queue.deadLetters.redrive({ ids: [scene.ids[0]] })
    },
    check: async (scene) => {
      const [a1, a2, b] = scene.ids
      await scene.subject.queue.deadLetters.redrive({ ids: [a1] })
      const effects = await handleRest(scene)
      // The redriven message comes after a2 if that was received before.
      expect(effects.toSorted()).toEqual(sortedIds([a1, a2, b]))
    },
  },
  'removes the rows of handled messages': {
    isReceived: true,
    run: async ({ root: through }, scene) => {
      const { queue } = scene.subject
      for (const each of scene.received) await handle(queue, root, each)
      // The table has the queues of earlier attempts: the collector begins at this one.
      let from = JSON.stringify([queue.name, -1])
      const store = connectedPortsOf('test', through.database).garbage()
      for (let removed = 0; removed < scene.received.length;) {
        const removal = await store.removeHandled(1, from)
        if (removal === 'timed-out' || removal.next === undefined)
          throw new Error('Rows of handled messages are left.')
        removed += removal.removed
        from = removal.next
      }
    },
    check: (scene) => expectAll(scene, scene.ids),
  },
  'receives with an attempt id': {
    run: ({ queue }) => queue.receive({ attemptId: 'x' }),
    check: async (scene) => {
      const [a1, , b] = scene.ids
      const again = await scene.subject.receive({ attemptId: 'x' })
      expect(idsOf(again).toSorted()).toEqual([a1, b].toSorted())
      await expectAll(scene, scene.ids)
    },
  },
  'receives with remove': {
    run: ({ queue }) => queue.receive({ remove: true }),
    check: async (scene) => {
      const effects = await handleRest(scene)
      expect(effects).toContain(scene.ids[1])
      expect(new Set(effects).size).toBe(effects.length)
    },
  },
  sends: {
    run: ({ queue, root: through }) =>
      within(through, async (tx) => {
        await queue.send(tx, [{ key: 'c', payload: 1 }, { payload: 2 }])
        await queue.send(tx, { key: 'c', payload: 3 })
      }),
    check: async (scene) => {
      expect([3, 6]).toContain(await scene.subject.size())
      const effects = await handleRest(scene)
      expect([3, 6]).toContain(effects.length)
      expect(new Set(effects).size).toBe(effects.length)
    },
  },
  releases: {
    isReceived: true,
    run: ({ queue }, scene) => queue.release(first(scene), { error: 'again', delayMs: 20 }),
    check: (scene) => expectAll(scene, scene.ids),
  },
  buries: {
    isReceived: true,
    run: ({ queue }, scene) => queue.bury(first(scene), { error: 'never' }),
    check: async (scene) => {
      const [a1, a2, b] = scene.ids
      // The statement in flight ends before this one, which needs the same row.
      await expire(scene.subject)
      const dead = (await scene.subject.queue.deadLetters.list()).map(({ id }) => id)
      expect([[], [a1]]).toContainEqual(dead)
      await expectAll(scene, dead.length > 0 ? [a2, b] : [a1, a2, b])
    },
  },
  purges: {
    isReceived: true,
    every: 5,
    run: ({ queue }) => queue.purge(),
    check: async (scene) => {
      const { subject, received, ids } = scene
      await subject.queue.purge()
      for (const each of received) await handle(subject.queue, root, each)
      const [next] = await subject.send({ key: 'a' })
      expect(sortedIds(await handleRest(scene))).toEqual(sortedIds([ids[0], ids[2], next]))
    },
  },
}

async function scene({ isReceived, isUnkeyed }: Action): Promise<Scene> {
  const subject = new QueueUnderTest(target, root, { visibilityTimeoutMs: 60_000 })
  const sent = isUnkeyed === true ? [{}, {}, {}] : [{ key: 'a' }, { key: 'a' }, { key: 'b' }]
  const [a1, a2, b] = await subject.send(...sent)
  const received = isReceived === true ? await subject.receive() : []
  return { subject, ids: [a1!, a2!, b!], received }
}

/** @returns whether the connections ended before the action had. */
async function kill(action: Action, request: number, phase: KillPhase): Promise<boolean> {
  const set = await scene(action)
  const proxy = await Proxy.to(target.address())
  const through = target.open(kind, { through: proxy, max: 2 })
  await through.ready?.()
  let isKilled = false
  const killed = proxy.killAt(request, phase).then(() => (isKilled = true))
  const running = Promise.resolve(action.run({ queue: set.subject.twin(through), root: through }, set))
  await Promise.race([running.catch(() => undefined), killed])
  await proxy.close()
  await running.catch(() => undefined)
  // A client whose BEGIN failed is not given back, so that the pool of pg never ends; its connections have ended.
  void through.close().catch(() => undefined)
  await action.check(set)
  return isKilled
}

/**
 * The first action is killed in each phase of its first 20 requests, in the quick tier of its first 10. All others are
 * killed in one phase by turns, at every second request, in the quick tier at every fourth.
 */
for (const [n, [doing, action]] of Object.entries(ACTIONS).entries()) {
  test(`Q20 Q21 all connections of a process that ${doing} end at any statement, as when it is killed: no message is lost, doubled, out of order or stuck`, async () => {
    const phases: readonly KillPhase[] = ['before', 'sent', 'answered']
    let isUnfinished = true
    for (let [request, turn] = [1, 0]; isUnfinished; turn += 1) {
      const isThorough = n === 0 && request <= (isQuick ? 10 : 20)
      isUnfinished = false
      for (const phase of isThorough ? phases : [phases[turn % 3]!]) {
        if (await kill(action, request, phase)) isUnfinished = true
      }
      expect(request).toBeLessThan(200)
      request += isThorough ? 1 : (action.every ?? 1) * (isQuick ? 4 : 2)
    }
    // A busy machine takes several times as long for a hundred processes.
  }, 240_000)
}

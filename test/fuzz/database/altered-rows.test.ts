import * as fc from 'fast-check'
import { beforeAll, expect } from 'vitest'
import { createGarbageCollector } from '@txbox/gc'
import { createInbox } from '@txbox/inbox'
import {
  createDeadLetters,
  createRelay,
  publishEach,
  type OutboxMessage,
  type RelayEvents,
} from '@txbox/relay'
import {
  alteredClaim,
  alteredLease,
  alteredOutbox,
  alteredParked,
  alteredWaiting,
  setOf,
  type Altered,
} from '../../support/engines/altered-rows.ts'
import { fuzz } from '../../support/worlds/fuzz.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { expectPresentable } from '../../support/worlds/refusals.ts'
import { outboxOf } from '../../support/subjects/relay-under-test.ts'
import { useRoot, useTarget } from '../../support/engines/target.ts'
import { OBEYED, txboxHere } from '../../support/subjects/txbox-in-process.ts'
import { useVersionBuffer } from '../../support/engines/altered-version-buffer.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, target.kinds.find(({ library }) => library !== 'kysely') ?? target.kinds[0]!)
const buffers = useVersionBuffer(target, root)
const [prefix, quote] = target.engine === 'postgres' ? ['txbox.', '"'] : ['txbox_', '`']
const key = `${quote}key${quote}`

beforeAll(async () => {
  await createRelay({ database: root.database, publisher: publishEach(() => 1) }).drain()
})

async function alter(table: string, where: string, altered: readonly Altered[]): Promise<void> {
  const { text, values } = setOf(target, altered)
  await outbox.sql(`update ${prefix}${table} set ${text} where ${where}`, values)
}

/** Drains with a new relay. @returns the ids that were published, and the log lines */
async function drain(
  publish: (message: OutboxMessage) => unknown = () => 1,
): Promise<{ published: readonly string[]; lines: readonly string[]; errors: RelayEvents['error'][] }> {
  const published: string[] = []
  const lines: string[] = []
  const errors: RelayEvents['error'][] = []
  const write = (_: object, text: string): void => void lines.push(text)
  const publisher = publishEach(async (message) => {
    await publish(message)
    published.push(message.id)
  })
  const relay = createRelay({
    database: root.database,
    publisher,
    pollIntervalMs: { min: 1, max: 5 },
    retry: { attempts: 2, delayMs: () => 1 },
    logger: { warn: write, error: write },
  })
  relay.on('error', (event) => void errors.push(event))
  await relay.drain()
  await relay.stop()
  for (const line of lines) expectPresentable(line.slice(0, 3000).replace(/ \(.*times, from.*\)$/, ''))
  return { published, lines, errors }
}

/** Messages of three keys, and one without a key: the first of key a is the one that is altered. */
async function publishSome(): Promise<void> {
  const transaction = await root.begin()
  await outboxOf(root).publish(transaction.tx, [
    { topic: 't', key: 'a', id: 'altered', payload: { n: 1 } },
    { topic: 't', key: 'a', id: 'behind', payload: { n: 2 } },
    { topic: 't', key: 'b', id: 'beside', payload: { n: 3 } },
    { topic: 't', id: 'unkeyed', payload: { n: 4 } },
  ])
  await transaction.commit()
}

const COMMANDS = [
  ['status'],
  ['status', '--json'],
  ['dead-letters', 'list'],
  ['dead-letters', 'list', '--json'],
  ['dead-letters', 'list', '--parked'],
  ['dead-letters', 'list', '--parked', '--json'],
]

let looks = 0

/** Checks that every command that reads the rows gets an answer. */
async function look(ids: readonly string[]): Promise<void> {
  const showCommands = ids.flatMap((id) => [
    ['dead-letters', 'show', '--payload', '--', id],
    ['dead-letters', 'show', '--payload', '--json', '--', id],
    ['dead-letters', 'show', '--payload', '--parked', '--', id],
  ])
  // Some of them, in turn: each connects again.
  looks += 1
  const all = [...COMMANDS, ...showCommands]
  for (const n of [0, 1, 2]) {
    const args = all[(looks * 3 + n) % all.length]!
    const { code, stdout, stderr } = await txboxHere(args, outbox.url())
    const said = stdout + stderr
    expect(OBEYED.test(said), `${args.join(' ')}: ${JSON.stringify(said.slice(0, 500))}`).toBe(false)
    const isAbsent = args[1] === 'show' && /There is no (dead letter|parked message)/.test(stderr)
    expect(isAbsent || code === 0, `${args.join(' ')}: ${JSON.stringify(stderr.slice(0, 500))}`).toBe(true)
  }
}

fuzz(
  'a row of the outbox that was altered by hand holds up no other',
  12,
  fc.tuple(alteredOutbox(target), fc.boolean()),
  async ([altered, refuses]) => {
    await outbox.clear()
    await publishSome()
    await alter('outbox', "id = 'altered'", altered)
    const { published, errors } = await drain(refuses ? (message) => message.json() : undefined)
    expect(errors).toEqual([])
    expect(published).toEqual(expect.arrayContaining(['behind', 'beside', 'unkeyed']))
    const dead = await createDeadLetters({ database: root.database }).list()
    expect(published.length + dead.length, 'none is lost').toBe(4)
    await look(dead.map(({ id }) => id))
  },
)

fuzz(
  'a parked message that was altered by hand holds up no other',
  12,
  fc.tuple(alteredParked(target), fc.boolean()),
  async ([altered, dies]) => {
    await outbox.clear()
    await publishSome()
    await drain((message) => {
      if (message.id === 'altered') throw new Error('not yet')
    })
    await alter('parked', "id = 'altered'", altered)
    const [{ id } = { id: '' }] = (await outbox.sql(`select id from ${prefix}parked`)) as { id: unknown }[]
    await look([String(id)])
    const { published, errors } = await drain((message) => {
      if (dies && message.key === 'a') throw new Error('no')
    })
    expect(errors).toEqual([])
    await publishSome()
    const after = await drain()
    expect([...published, ...after.published]).toEqual(expect.arrayContaining(['beside', 'unkeyed']))
    await createGarbageCollector({ database: root.database, pauseMs: 0, logger: false }).runOnce()
  },
)

fuzz(
  'leases that were altered by hand hold up nothing once they have run out',
  10,
  alteredLease(target),
  async (altered) => {
    await outbox.clear()
    await drain()
    await publishSome()
    await alter('leases', 'name = name', altered)
    const { published, errors } = await drain()
    expect(errors).toEqual([])
    expect(published).toEqual(expect.arrayContaining(['altered', 'behind', 'beside', 'unkeyed']))
    await look([])
  },
)

fuzz(
  'a claim that was altered by hand answers, and so do its neighbours',
  10,
  alteredClaim(target),
  async (altered) => {
    const consumer = `c${Math.random()}`
    const inbox = createInbox({ database: root.database, consumer })
    for (const id of ['altered', 'beside']) await inbox.run({ id }, () => 1)
    await alter('inbox', `consumer = '${consumer}' and ${key} = 'altered'`, altered)
    const { status } = await inbox.run({ id: 'altered' }, () => 1)
    expect(['processed', 'duplicate']).toContain(status)
    expect((await inbox.run({ id: 'beside' }, () => 1)).status).toBe('duplicate')
    const collected = await createGarbageCollector({
      database: root.database,
      pauseMs: 0,
      logger: false,
    }).runOnce()
    expect(collected.complete).toBe(true)
    await look([])
  },
)

fuzz(
  'a waiting change that was altered by hand holds up no other key',
  10,
  fc.tuple(alteredWaiting(target), fc.boolean()),
  async ([altered, isDead]) => {
    await buffers.check(altered, isDead)
  },
)

import { fork, type ChildProcess } from 'node:child_process'
import path from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createLocalConsumer, sqlDedup } from '@txbox/consumer'
import { PermanentError, type TransactionHandle } from '@txbox/core'
import { createGarbageCollector } from '@txbox/gc'
import { createOutbox } from '@txbox/outbox'
import { createDeadLetters } from '@txbox/relay'
import { namesOf } from '../support/engines/migrations.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { releaseBefore } from '../support/engines/release-before.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'

const target = useTarget({ migrated: false })
const outbox = useOutboxTarget(target, { migrated: false })
const root = useRoot(target, mainKind(target))

/** A process that runs the release before. */
class OldProcess {
  readonly published: string[] = []
  applied: readonly string[] | undefined
  readonly #process: ChildProcess
  readonly #answers = new Map<number, PromiseWithResolvers<unknown>>()
  #complaint = ''
  #calls = 0

  constructor(folder: string, url: string) {
    const program = path.join(import.meta.dirname, 'programs', 'old-process.ts')
    const engine = inject('engine') === 'postgres' ? 'postgres' : 'mysql'
    this.#process = fork(program, [folder, engine, url], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      execArgv: ['--disable-warning=ExperimentalWarning'],
    })
    this.#process.stderr?.on('data', (chunk: Buffer) => (this.#complaint += chunk.toString()))
    this.#process.on('message', (message) => this.#heard(message as Record<string, unknown>))
  }

  async started(): Promise<void> {
    await until(
      async () => this.applied !== undefined,
      async () => `the release before has started: ${this.#complaint}`,
    )
  }

  call(call: string, argument = ''): Promise<unknown> {
    const n = (this.#calls += 1)
    const answer = Promise.withResolvers<unknown>()
    this.#answers.set(n, answer)
    this.#process.send({ call, argument, n })
    return answer.promise
  }

  kill(): void {
    this.#process.kill('SIGKILL')
  }

  #heard({ applied, published, n, result, error }: Record<string, unknown>): void {
    if (applied !== undefined) this.applied = applied as string[]
    if (published !== undefined) this.published.push(published as string)
    const answer = this.#answers.get(n as number)
    if (error === undefined) answer?.resolve(result)
    else answer?.reject(new Error(error as string))
  }
}

let old: OldProcess
beforeAll(async () => {
  old = new OldProcess(await releaseBefore(), outbox.url())
  await old.started()
}, 300_000)
afterAll(() => old?.kill())

async function hasPublished(...ids: readonly string[]): Promise<void> {
  await until(
    async () => ids.every((id) => old.published.includes(id)),
    async () => `the relay has published ${ids.join()}; it has published ${old.published.join()}`,
  )
}

async function count(table: string, where = '1 = 1'): Promise<number> {
  const name = target.outboxTable.replace(/outbox$/, table)
  const [row] = await target.sql(`select count(*) as n from ${name} where ${where}`)
  return Number(row!['n'])
}

/** One database: each test continues from the one before it. */
test('the relay and the outbox of the release before go on while the migration runs, and start again after it', async () => {
  expect(old.applied).toEqual(namesOf(target).slice(0, -1))
  const before = (await old.call('publish', 't')) as string
  expect(await target.migrate()).toEqual(namesOf(target).slice(-1))
  const after = (await old.call('publish', 't')) as string
  await hasPublished(before, after)
  await old.call('restart')
  await hasPublished((await old.call('publish', 't')) as string)
  expect(old.published).toHaveLength(3)
})

test('it publishes the messages of a new outbox that have a topic, once, and leaves those of local consumers alone', async () => {
  const handled: string[] = []
  const consumer = createLocalConsumer({
    database: root.database,
    consumer: 'billing',
    handlers: {
      async 'order.placed'(tx: TransactionHandle, { id }: { readonly id: string }) {
        handled.push(id)
        await target.effect(tx, id)
      },
      'order.refused': () => Promise.reject(new PermanentError('no')),
    },
  })
  await consumer.start()
  const producer = createOutbox({
    database: root.database,
    subscriptions: { 'order.placed': ['billing', 'nobody'], 'order.refused': ['billing'] },
  })
  const publish = async (message: object): Promise<string> =>
    root.database.transact(async (tx) => {
      const all = [{ type: 'order.placed', key: 'k', payload: 1, ...message }]
      return (await producer.publish(tx, all))[0]!.id
    })
  const both = await publish({ topic: 't' })
  const local = await publish({})
  const later = await publish({ topic: 't', deliverAt: new Date(Date.now() + 3_600_000) })
  const dead = await publish({ type: 'order.refused', topic: 't' })
  const foreign = (await old.call('publish', 't')) as string
  await hasPublished(both, dead, foreign)
  await until(
    async () => handled.length === 2 && (await count('local_parked', 'dead_at is not null')) === 1,
    async () => `the consumer has handled ${handled.join()}`,
  )
  // Another round of polls would publish what the relay takes for its own.
  await hasPublished((await old.call('publish', 't')) as string)
  expect(handled).toEqual([both, local])
  for (const id of [local, later]) expect(old.published).not.toContain(id)
  expect(new Set(old.published).size).toBe(old.published.length)
  expect(await target.effects(both)).toBe(1)
  // Two messages of a consumer that nobody runs, the same two that are scheduled, and the dead letter.
  expect(await count('local_outbox', "consumer = 'nobody'")).toBe(2)
  expect([await count('local_parked'), await count('parked')]).toEqual([3, 1])
  await consumer.stop()
})

test('its operators and its collector work beside the tables of the migration, and leave the marks of dedup stores alone', async () => {
  const refused = (await old.call('publish', 'refused')) as string
  const letters = createDeadLetters({ database: root.database })
  await until(
    async () => (await letters.list()).some(({ id }) => id === refused),
    async () => 'the relay has refused the message',
  )
  const [local] = await letters.list({ consumer: 'billing' })
  const listed = (await old.call('list')) as readonly { readonly id: string }[]
  expect(listed.map(({ id }) => id).toSorted()).toEqual([local!.id, refused].toSorted())
  expect(await old.call('redrive', local!.id)).toMatchObject([{ consumer: 'billing' }])
  expect(await letters.redrive({ ids: [refused] })).toMatchObject([{ id: refused }])
  expect([await count('redrives', 'consumer is null'), await count('redrives')]).toEqual([1, 2])

  const dedup = sqlDedup({ database: root.database })
  for (const key of ['done', 'in flight']) {
    const begun = await dedup.begin({ consumer: 'c', key })
    if (key === 'done' && begun.status === 'won') await dedup.complete(begun.token)
  }
  const leases = target.outboxTable.replace(/outbox$/, 'dedup_leases')
  await target.sql(`update ${leases} set expires_at = processed_at where processed_at is not null`)
  await old.call('collect')
  expect(await count('dedup_leases')).toBe(2)
  expect(await createGarbageCollector({ database: root.database }).runOnce()).toMatchObject({ inbox: 1 })
  expect(await count('dedup_leases')).toBe(1)
})

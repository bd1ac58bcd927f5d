import { randomUUID } from 'node:crypto'
import { createConsumer, type Consumer, type InboxMessage } from '@txbox/consumer'
import { PermanentError, type TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { describe, expect, onTestFinished, test } from 'vitest'
import { listen, type ConsumerUnderTest } from '../../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { useTarget, type Root } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'
import { failureOf, useVersionedTables } from '../../support/subjects/versioned-tables.ts'
import {
  onEachHalf,
  onEachHalfAtOneLevel,
  type VersioningUnderTest,
} from '../../support/subjects/versioning-under-test.ts'

interface Changed {
  readonly id: string
  readonly version: number
}

const target = useTarget()
const tables = useVersionedTables(target)
const OPTIONS = {
  table: 'orders',
  where: ({ payload }: InboxMessage<Changed>) => ({ id: payload.id }),
  version: ({ payload }: InboxMessage<Changed>) => payload.version,
}
const INSERTING = {
  ...OPTIONS,
  insert: ({ payload }: InboxMessage<Changed>) => ({
    id: payload.id,
    total: 0,
    version: 0,
    updated_at: null,
  }),
}
type Guard = ReturnType<typeof VersioningUnderTest.prototype.versionGuard<Changed>>
const message = (payload: unknown): InboxMessage<Changed> => ({
  id: randomUUID(),
  payload: payload as Changed,
})

/** A consumer whose handler writes the version of the message into the total of the order. */
class GuardUnderTest {
  readonly source = new MemorySource()
  readonly events: ConsumerUnderTest['events'] = []
  readonly handled: number[] = []
  readonly #root: Root
  /** Called in the transaction, after the write. */
  afterWrite: (version: number) => Promise<void> = async () => undefined

  constructor(root: Root) {
    this.#root = root
  }

  get #options() {
    return {
      source: this.source as never,
      inbox: createInbox({
        database: this.#root.database,
        consumer: `guard-${randomUUID()}`,
      }),
      logger: false,
      retry: { attempts: 2, delayMs: () => 10 },
    } as const
  }

  async start(which: Guard): Promise<this> {
    return this.#started(
      createConsumer<TransactionHandle, Changed>({
        ...this.#options,
        guard: which,
        handler: (tx, { payload }) => this.#handle(tx, payload),
      }),
    )
  }

  async startBatch(guard: Guard): Promise<this> {
    return this.#started(
      createConsumer<TransactionHandle, Changed>({
        ...this.#options,
        guard,
        batch: { maxSize: 10, lingerMs: 50 },
        concurrency: 1,
        handler: async (tx, messages) => {
          for (const { payload } of messages) await this.#handle(tx, payload)
        },
      }),
    )
  }

  send(id: string, ...versions: number[]): void {
    for (const version of versions) this.source.send(`v${version}`, { payload: { id, version } })
  }

  async heard(count: number): Promise<Record<string, unknown>> {
    await until(
      async () => this.#settled.length >= count,
      () => `${count} settled: ${JSON.stringify(this.events)}`,
    )
    return Object.fromEntries(
      this.#settled.map(({ id, event, value }) => [
        id,
        event === 'handled' ? Reflect.get(value, 'outcome') : event,
      ]),
    )
  }

  async handling(version: number): Promise<void> {
    await until(
      async () => this.handled.includes(version),
      () => `version ${version} is being handled`,
    )
  }

  get #settled() {
    return this.events.filter(({ event }) => ['handled', 'dead-lettered'].includes(event))
  }

  async #handle(tx: TransactionHandle, { id, version }: Changed): Promise<void> {
    await target.exec(tx, 'update orders set total = ? where id = ?', [version, id])
    this.handled.push(version)
    await this.afterWrite(version)
  }

  async #started(consumer: Consumer<InboxMessage<Changed>>): Promise<this> {
    listen(consumer, this.events)
    onTestFinished(() => consumer.stop())
    await consumer.start()
    return this
  }
}

onEachHalf(target, (half) => {
  const { root } = half
  const guard = half.versionGuard<Changed>(OPTIONS)
  const insertingGuard = half.versionGuard<Changed>(INSERTING)

  test('V8 C2 a newer change is applied, also when versions are skipped; an equal or older one is stale', async () => {
    const subject = await new GuardUnderTest(root).start(guard)
    const id = await tables.order({ version: 3 })
    for (const [n, version] of [3, 9, 2, 8, 10].entries()) {
      subject.send(id, version)
      await subject.heard(n + 1)
    }
    expect(await subject.heard(5)).toEqual({
      ...{ v3: 'stale', v9: 'processed', v2: 'stale', v8: 'stale', v10: 'processed' },
    })
    expect(subject.handled).toEqual([9, 10])
    expect(await tables.read(id)).toMatchObject({ version: '10', total: 10 })
  })

  test.each([
    ['an existing row', guard],
    ['a row that the first of them inserts', insertingGuard],
  ])('V8 of two concurrent deliveries the older one never overwrites the newer one: %s', async (_, which) => {
    for (const [first, second] of [
      [7, 6],
      [6, 7],
    ] as const) {
      const subject = await new GuardUnderTest(root).start(which)
      const id = which === guard ? await tables.order({ version: 1 }) : randomUUID()
      const gate = Promise.withResolvers<void>()
      subject.afterWrite = (version) => (version === first ? gate.promise : Promise.resolve())
      subject.send(id, first)
      await subject.handling(first)
      subject.send(id, second)
      await new Promise((resolve) => setTimeout(resolve, 100))
      expect(subject.handled).toEqual([first])
      gate.resolve()
      expect(await subject.heard(2)).toMatchObject(
        first === 7 ? { v7: 'processed', v6: 'stale' } : { v6: 'processed', v7: 'processed' },
      )
      expect(await tables.read(id)).toMatchObject({ version: '7', total: 7 })
    }
  })

  test('V8 a handler that fails takes the version back, so that an older delivery that waited is applied', async () => {
    const subject = await new GuardUnderTest(root).start(guard)
    const id = await tables.order({ version: 1 })
    const gate = Promise.withResolvers<void>()
    subject.afterWrite = async (version) => {
      if (version !== 7) return
      await gate.promise
      throw new PermanentError('never')
    }
    subject.send(id, 7)
    await subject.handling(7)
    subject.send(id, 6)
    gate.resolve()
    expect(await subject.heard(2)).toEqual({ v7: 'dead-lettered', v6: 'processed' })
    expect(await tables.read(id)).toMatchObject({ version: '6', total: 6 })
  })

  test('V8 C26 versions of one row in one batch, in any order: the newest stays', async () => {
    const subject = await new GuardUnderTest(root).startBatch(guard)
    const id = await tables.order({ version: 1 })
    subject.send(id, 4, 2, 6, 5, 3)
    const outcomes = await subject.heard(5)
    expect(outcomes).toMatchObject({ v6: 'processed', v5: 'stale', v3: 'stale' })
    expect(await tables.read(id)).toMatchObject({ version: '6', total: 6 })
  })
})

describe('what is refused', () => {
  onEachHalfAtOneLevel(target, (half) => {
    const { root } = half
    const guard = half.versionGuard<Changed>(OPTIONS)
    const insertingGuard = half.versionGuard<Changed>(INSERTING)
    const guarded = (which: typeof guard, payload: unknown) =>
      failureOf(half.inTransaction((tx) => which(tx, message(payload))))

    test('V8 a missing row is reported, and delivered again', async () => {
      expect(await guarded(guard, { id: 'nobody', version: 1 })).toMatchObject({
        code: 'TXBOX_ROW_NOT_FOUND',
      })
      const subject = await new GuardUnderTest(root).start(guard)
      const id = randomUUID()
      subject.send(id, 5)
      await until(
        async () => subject.events.some(({ event }) => event === 'retried'),
        () => 'retried',
      )
      expect(await subject.heard(1)).toEqual({ v5: 'dead-lettered' })
      expect(subject.handled).toEqual([])
    })

    test('V8 a missing row is inserted with the version and the key', async () => {
      const id = randomUUID()
      const apply = (version: number) =>
        half.inTransaction((tx) => insertingGuard(tx, message({ id, version })))
      expect(await apply(4)).toBe('apply')
      expect(await tables.read(id)).toMatchObject({ version: '4', total: 0 })
      expect(await apply(4)).toBe('stale')
      expect(await apply(3)).toBe('stale')
      expect(await apply(5)).toBe('apply')
      expect(await tables.read(id)).toMatchObject({ version: '5' })
    })

    test('V8 versions of 64 bits are compared exactly', async () => {
      const account = await tables.ledger(2n ** 62n)
      const big = half.versionGuard<{ version: string }>({
        table: 'ledgers',
        where: () => ({ account }),
        version: ({ payload }: InboxMessage<{ version: string }>) => payload.version,
        versionColumn: 'rev',
      })
      const apply = (version: bigint) =>
        half.inTransaction((tx) => big(tx, { id: 'm', payload: { version: String(version) } }))
      expect(await apply(2n ** 62n)).toBe('stale')
      expect(await apply(2n ** 62n + 1n)).toBe('apply')
      expect(await tables.rev(account)).toBe(String(2n ** 62n + 1n))
      expect(await apply(2n ** 62n)).toBe('stale')
    })

    test.each([
      ['a column that does not exist', 'versoin'],
      ['a column of another type', 'updated_at'],
      ['a column that holds null', 'note'],
      ['a name with a quote', '"`; drop table orders; --'],
    ])('V8 the version column is wrong, and the error names it: %s', async (_, versionColumn) => {
      const id = await tables.order({ updatedAt: '2026-01-02 03:04:05' })
      const wrong = half.versionGuard<Changed>({
        table: 'orders',
        where: () => ({ id }),
        version: () => 7,
        versionColumn,
      })
      const failure = await guarded(wrong, {})
      expect(failure).toMatchObject({ code: 'TXBOX_INVALID_OPTION' })
      expect(String(failure)).toContain(versionColumn)
      expect(await tables.read(id)).toMatchObject({ version: '1' })
    })

    test('V8 a message without a row or a version is a dead letter at once', async () => {
      const id = await tables.order()
      for (const payload of [
        { id },
        { id, version: 1.5 },
        { id, version: 2 ** 53 },
        { id, version: 'x' },
        { version: 2 },
      ])
        expect(await guarded(guard, payload)).toMatchObject({ code: 'TXBOX_INVALID_MESSAGE' })
      const subject = await new GuardUnderTest(root).start(guard)
      subject.source.send('bad', { payload: { id } })
      expect(await subject.heard(1)).toEqual({ bad: 'dead-lettered' })
      expect(subject.events.filter(({ event }) => event === 'retried')).toEqual([])
      expect(await tables.read(id)).toMatchObject({ version: '1' })
    })

    test('V8 a root, several rows, and options that are missing or unknown', async () => {
      const id = await tables.order()
      expect(await failureOf(guard(half.db, message({ id, version: 2 })))).toMatchObject({
        code: 'TXBOX_NOT_IN_TRANSACTION',
      })
      await tables.order({ status: id })
      await tables.order({ status: id })
      const several = half.versionGuard<Changed>({
        table: 'orders',
        where: () => ({ status: id }),
        version: () => 7,
      })
      expect(await guarded(several, {})).toMatchObject({ code: 'TXBOX_INVALID_OPTION' })
      const options = { table: 'orders', where: () => ({ id }), version: () => 1 }
      for (const wrong of [
        { ...options, table: '' },
        { ...options, where: undefined },
        { ...options, version: 1 },
        { ...options, versionColumn: '' },
        { ...options, insert: {} },
        { ...options, set: {} },
        undefined,
      ])
        expect(() => half.versionGuard(wrong as never)).toThrow(
          expect.objectContaining({ code: 'TXBOX_INVALID_OPTION' }),
        )
    })

    test('V8 names are quoted', async () => {
      const quote = target.engine === 'postgres' ? '"' : '`'
      const name = target.engine === 'postgres' ? 'odd ""table' : 'odd "table'
      await target.sql(`drop table if exists ${quote}${name}${quote}`)
      await target.sql(
        target.engine === 'postgres'
          ? 'create table "odd ""table" ("select" varchar(100) primary key, "my version" bigint not null)'
          : 'create table `odd "table` (`select` varchar(100) primary key, `my version` bigint not null)',
      )
      const odd = half.versionGuard({
        table: 'odd "table',
        where: () => ({ select: 'a' }),
        version: () => 7n,
        versionColumn: 'my version',
        insert: () => ({ select: 'a', 'my version': '0' }),
      })
      const apply = () => half.inTransaction((tx) => odd(tx, { id: 'm', payload: {} }))
      expect(await apply()).toBe('apply')
      expect(await apply()).toBe('stale')
      expect(await target.sql(`select 1 from ${quote}${name}${quote}`)).toHaveLength(1)
    })
  })
})

// The transactions that @nestjs-cls/transactional passes through the call chain: `txHost.tx`, and the proxy of
// @InjectTransaction(). Decorators are applied as compiled code applies them.
import 'reflect-metadata'
import { randomUUID } from 'node:crypto'
import {
  ClsPluginTransactional,
  getTransactionToken,
  Propagation,
  Transactional,
  TransactionHost,
  type TransactionalAdapter,
} from '@nestjs-cls/transactional'
import { TransactionalAdapterDrizzleOrm } from '@nestjs-cls/transactional-adapter-drizzle-orm'
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm'
import { Inject, Injectable, Module, type INestApplicationContext } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { sql } from 'drizzle-orm'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { ClsModule } from 'nestjs-cls'
import { Pool } from 'pg'
import { DataSource, type EntityManager } from 'typeorm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { NotInTransactionError, type TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { migrate, postgres } from '@txbox/postgres'
import { useDatabaseUrl } from '../../cli/use-database-url.ts'
import { assertType, type Same } from '../../types/same.ts'

const database = useDatabaseUrl()
let pool: Pool
beforeAll(async () => {
  pool = new Pool({ connectionString: database.url, max: 2 })
  await migrate(pool)
  await pool.query('create table effects (consumer text not null)')
})
afterAll(() => pool.end())

type Adapter = TransactionalAdapter<unknown, TransactionHandle, unknown>
type DrizzleTransaction = Parameters<Parameters<NodePgDatabase['transaction']>[0]>[0]

/** A library, with the adapter that NestJS is given, and its own way to write an effect. */
interface Library {
  readonly name: string
  open(): Promise<{ adapter: unknown; close(): Promise<void> }>
  effect(tx: unknown, consumer: string): Promise<unknown>
}
const LIBRARIES: readonly Library[] = [
  {
    name: 'Drizzle',
    async open() {
      const client = new Pool({ connectionString: database.url, max: 4 })
      const adapter = new TransactionalAdapterDrizzleOrm<NodePgDatabase>({ drizzleInstanceToken: undefined })
      return {
        adapter: Object.assign(adapter, { connection: drizzle({ client }) }),
        close: () => client.end(),
      }
    },
    effect: (tx, consumer) =>
      (tx as DrizzleTransaction).execute(sql`insert into effects values (${consumer})`),
  },
  {
    name: 'TypeORM',
    async open() {
      const source = await new DataSource({ type: 'postgres', url: database.url, poolSize: 4 }).initialize()
      const adapter = new TransactionalAdapterTypeOrm({ dataSourceToken: undefined })
      return { adapter: Object.assign(adapter, { connection: source }), close: () => source.destroy() }
    },
    effect: (tx, consumer) => (tx as EntityManager).query('insert into effects values ($1)', [consumer]),
  },
]

const inboxOf = (consumer: string) => createInbox({ database: postgres(), consumer })

/** A service as users write it. */
class Payments {
  consumer = ''
  inbox!: ReturnType<typeof inboxOf>
  readonly outbox = createOutbox({ database: postgres() })
  library!: Library

  readonly txHost: TransactionHost<Adapter>
  readonly proxy: TransactionHandle
  constructor(txHost: TransactionHost<Adapter>, proxy: TransactionHandle) {
    this.txHost = txHost
    this.proxy = proxy
  }

  /** Without a transaction of its own. */
  async handle(id: string, tx: TransactionHandle): Promise<string> {
    const { status } = await this.inbox.process(tx, { id }, async (given) => {
      await this.library.effect(given, this.consumer)
      await this.outbox.publish(tx, { topic: this.consumer, payload: { id } })
    })
    return status
  }

  pay(id: string): Promise<string> {
    return this.handle(id, this.txHost.tx)
  }

  payThroughProxy(id: string): Promise<string> {
    return this.handle(id, this.proxy)
  }

  async payAndFail(id: string, way: 'pay' | 'payThroughProxy'): Promise<void> {
    await this[way](id)
    throw new Error('of the caller')
  }

  async payAfterFailure(id: string): Promise<string> {
    await expect(this.payInSavepoint(id)).rejects.toThrow('of the caller')
    return this.handle(id, this.txHost.tx)
  }

  payInSavepoint(id: string): Promise<void> {
    return this.payAndFail(id, 'pay')
  }
}

function decorate(method: keyof Payments, decorator: MethodDecorator): void {
  const descriptor = Object.getOwnPropertyDescriptor(Payments.prototype, method)!
  Object.defineProperty(
    Payments.prototype,
    method,
    decorator(Payments.prototype, method, descriptor) ?? descriptor,
  )
}
Injectable()(Payments)
Inject(TransactionHost)(Payments, undefined, 0)
Inject(getTransactionToken())(Payments, undefined, 1)
for (const method of ['pay', 'payThroughProxy', 'payAndFail', 'payAfterFailure'] as const)
  decorate(method, Transactional())
decorate('payInSavepoint', Transactional(Propagation.Nested))

async function start(adapter: unknown): Promise<INestApplicationContext> {
  // oxlint-disable-next-line typescript/no-extraneous-class -- NestJS names a module by a class
  class AppModule {}
  const plugin = new ClsPluginTransactional({ adapter: adapter as Adapter, enableTransactionProxy: true })
  Module({ imports: [ClsModule.forRoot({ plugins: [plugin] })], providers: [Payments] })(AppModule)
  return NestFactory.createApplicationContext(AppModule, { logger: false })
}

describe.each(LIBRARIES)('NestJS with $name', (library) => {
  let app: INestApplicationContext
  let opened: Awaited<ReturnType<Library['open']>>
  beforeAll(async () => {
    opened = await library.open()
    app = await start(opened.adapter)
  })
  afterAll(async () => {
    await app.close()
    await opened.close()
  })

  /** The service, with a consumer of its own. */
  function service(): Payments {
    const payments = app.get(Payments)
    payments.consumer = `consumer-${randomUUID()}`
    payments.inbox = inboxOf(payments.consumer)
    payments.library = library
    return payments
  }

  /** How many claims, effects and messages are committed. */
  async function committed({ consumer }: Payments): Promise<unknown> {
    const { rows } = await pool.query<Record<string, number>>(
      `select (select count(*)::int from txbox.inbox where consumer = $1) as claims,
        (select count(*)::int from effects where consumer = $1) as effects,
        (select count(*)::int from txbox.outbox where topic = $1) as messages`,
      [consumer],
    )
    return rows[0]
  }

  test.each(['pay', 'payThroughProxy'] as const)(
    'I1 I2 %s: claim, effect and message commit together, once',
    async (way) => {
      const payments = service()
      expect([await payments[way]('m'), await payments[way]('m')]).toEqual(['processed', 'duplicate'])
      expect(await committed(payments)).toEqual({ claims: 1, effects: 1, messages: 1 })
    },
  )

  test.each(['pay', 'payThroughProxy'] as const)(
    'I3 %s: claim, effect and message roll back together',
    async (way) => {
      const payments = service()
      await expect(payments.payAndFail('m', way)).rejects.toThrow('of the caller')
      expect(await committed(payments)).toEqual({ claims: 0, effects: 0, messages: 0 })
      expect(await payments[way]('m')).toBe('processed')
    },
  )

  test('concurrent requests share the proxy, and each has its own transaction', async () => {
    const payments = service()
    const ids = ['m1', 'm2', 'm3', 'm1', 'm2', 'm3']
    const statuses = await Promise.all(ids.map((id) => payments.payThroughProxy(id)))
    expect(statuses.toSorted()).toEqual([
      ...Array<string>(3).fill('duplicate'),
      ...Array<string>(3).fill('processed'),
    ])
    expect(await committed(payments)).toEqual({ claims: 3, effects: 3, messages: 3 })
  })

  test('I8 a claim in a nested transaction that rolls back is forgotten', async () => {
    const payments = service()
    expect(await payments.payAfterFailure('m')).toBe('processed')
    expect(await committed(payments)).toEqual({ claims: 1, effects: 1, messages: 1 })
  })

  test.each(['txHost.tx', 'the proxy'] as const)(
    'outside a transaction %s is refused, and nothing is written',
    async (name) => {
      const payments = service()
      const tx = name === 'txHost.tx' ? payments.txHost.tx : payments.proxy
      await expect(payments.handle('m', tx)).rejects.toThrow(NotInTransactionError)
      await expect(payments.outbox.publish(tx, { topic: payments.consumer, payload: {} })).rejects.toThrow(
        NotInTransactionError,
      )
      expect(await committed(payments)).toEqual({ claims: 0, effects: 0, messages: 0 })
    },
  )
})

/** What the compiler says of `txHost.tx`: with TypeORM, a root has the type of a transaction. */
export async function types({ tx }: TransactionHost<TransactionalAdapterTypeOrm>): Promise<void> {
  const inbox = createInbox({ database: postgres(), consumer: 'c' })
  await inbox.process(tx, { id: 'm' }, (given) => assertType<Same<typeof given, EntityManager>>())
}

import { CompiledQuery, Kysely, PostgresDialect, type Transaction } from 'kysely'
import { Pool } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import type { ConnectedPorts, LocalRow } from '@txbox/core/ports'
import { connectedPortsOf } from '@txbox/core/internal'
import { createIdempotency } from '@txbox/idempotency-key'
import { postgres } from '@txbox/postgres'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'

const target = useTarget()
const LEASE = { name: 'local/x/03', owner: 'me', term: 1n, crashes: 0, inFlight: undefined }
const ROW: LocalRow = { in: 'waiting', seq: 1n, stamp: Date.now() * 1000 }

/** The ports of a pool of one connection, which all transactions get. */
async function open(): Promise<{ readonly ports: ConnectedPorts; readonly pool: Pool }> {
  const pool = new Pool({ connectionString: await databaseUrl(target), max: 1 })
  pool.on('error', () => undefined)
  onTestFinished(() => pool.end())
  return { ports: connectedPortsOf('test', postgres({ db: pool })), pool }
}

/** The ports of Kysely, which hides its clients: a client that breaks in a transaction has no other listener than this one. */
async function openKysely(): Promise<ConnectedPorts> {
  const pool = new Pool({ connectionString: await databaseUrl(target), max: 1 })
  pool.on('error', () => undefined)
  pool.on('connect', (client) => void client.on('error', () => undefined))
  const db = new Kysely<object>({ dialect: new PostgresDialect({ pool }) })
  onTestFinished(() => db.destroy())
  return connectedPortsOf('test', postgres({ db }))
}

async function limitOf(connection: Pick<Pool, 'query'>): Promise<unknown> {
  const { rows } = await connection.query('show idle_in_transaction_session_timeout')
  return Object.values(rows[0] as object)[0]
}

test.each(['BEGIN alone', 'BEGIN together with a statement'])(
  'L4 the server ends the transaction of a handler that is frozen, and the time that it allows is for this transaction only: %s',
  async (how) => {
    const { ports, pool } = await open()
    const before = await limitOf(pool)
    const transact = (idleLimitMs: number, handler: (tx: Pool) => Promise<unknown>): Promise<unknown> =>
      ports.transact(
        async (tx, session) => {
          if (how !== 'BEGIN alone') {
            const locked = await ports
              .local({ statementTimeoutMs: 5000 })
              .lock(session, LEASE, { consumer: 'x', shard: 3 }, [ROW])
            expect(locked).toEqual([])
          }
          return ports.watch(session, () => handler(tx as Pool))
        },
        { isolation: 'read committed', idleLimitMs },
      )
    await transact(30_000, async (tx) => expect(await limitOf(tx)).toBe('30s'))
    expect(await limitOf(pool)).toBe(before)

    await target.sql('insert into effects (name) values (?)', [how])
    let isEnded = false
    const frozen = transact(500, async (tx) => {
      await tx.query('select 1 from effects where name = $1 for update', [how])
      const isFree = async (): Promise<boolean> =>
        (await target.sql('select 1 from effects where name = ? for update skip locked', [how])).length > 0
      expect(await isFree()).toBe(false)
      await until(isFree, () => 'the server has not ended the transaction')
      isEnded = true
    })
    await expect(frozen).rejects.toThrow()
    expect(isEnded).toBe(true)
    expect(await limitOf(pool)).toBe(before)
  },
)

test.each(['read committed', 'repeatable read'] as const)(
  'L4 the server ends the transaction of a handler that is frozen in a transaction of Kysely at %s',
  async (isolation) => {
    const ports = await openKysely()
    const run = async (tx: unknown, sql: string): Promise<unknown> =>
      (await (tx as Transaction<object>).executeQuery(CompiledQuery.raw(sql))).rows
    const limit = (tx: unknown): Promise<unknown> => run(tx, 'show idle_in_transaction_session_timeout')
    const before = await ports.transact(limit, {})
    const during = await ports.transact(limit, { isolation, idleLimitMs: 30_000 })
    expect(during).toEqual([{ idle_in_transaction_session_timeout: '30s' }])
    expect(await ports.transact(limit, {})).toEqual(before)

    const name = `kysely at ${isolation}`
    await target.sql('insert into effects (name) values (?)', [name])
    let isEnded = false
    const frozen = ports.transact(
      async (tx) => {
        await run(tx, `select 1 from effects where name = '${name}' for update`)
        const isFree = async (): Promise<boolean> =>
          (await target.sql('select 1 from effects where name = ? for update skip locked', [name])).length > 0
        expect(await isFree()).toBe(false)
        await until(isFree, () => 'the server has not ended the transaction')
        isEnded = true
      },
      { isolation, idleLimitMs: 500 },
    )
    await expect(frozen).rejects.toThrow()
    expect(isEnded).toBe(true)
    expect(await ports.transact(limit, {})).toEqual(before)
  },
)

test('a limit of the idle time takes no snapshot: what commits before the first statement is seen at REPEATABLE READ', async () => {
  const ports = await openKysely()
  // The first transaction checks the tables.
  await ports.transact(async () => undefined, {})
  const found = await ports.transact(
    async (tx) => {
      await target.sql("insert into effects (name) values ('later than BEGIN')")
      const sql = "select 1 as one from effects where name = 'later than BEGIN'"
      return (await (tx as Transaction<object>).executeQuery(CompiledQuery.raw(sql))).rows
    },
    { isolation: 'repeatable read', idleLimitMs: 30_000 },
  )
  expect(found).toEqual([{ one: 1 }])
})

test('H3 the server ends the transaction of a request whose process is frozen, so that the next request runs', async () => {
  const database = async (): Promise<ReturnType<typeof postgres<Pool>>> => {
    const pool = new Pool({ connectionString: await databaseUrl(target), max: 2 })
    pool.on('error', () => undefined)
    onTestFinished(() => pool.end())
    return postgres({ db: pool })
  }
  const name = 'frozen requests'
  const request = {
    method: 'POST',
    path: '/orders',
    headers: { 'idempotency-key': 'k' },
    body: new Uint8Array(),
  }
  const first = createIdempotency({ database: await database(), name, timeoutMs: 20_000 })
  const answer = { status: 201, body: 'made' }
  await first.handle(request, async (tx) => {
    expect(await limitOf(tx as never)).toBe('21s')
    return answer
  })
  const frozen = createIdempotency({ database: await database(), name, timeoutMs: 300 })
  const other = createIdempotency({ database: await database(), name, whileInFlight: { waitMs: 10_000 } })
  const later = { ...request, headers: { 'idempotency-key': 'l' } }
  const { promise: hasBegun, resolve: begins } = Promise.withResolvers<void>()
  const held = frozen.handle(later, async () => {
    begins()
    // The event loop stands still, as in a process that is stopped: nobody else can end the transaction.
    const until = performance.now() + 2500
    while (performance.now() < until);
    return answer
  })
  await hasBegun
  expect(await other.handle(later, async () => answer)).toMatchObject({ status: 201 })
  expect((await held).status).toBe(503)
})

import { describe, expect, test } from 'vitest'
import {
  DatabaseAccessError,
  DatabaseUnavailableError,
  TransactionConflictError,
  UnsupportedTransactionError,
} from '@txbox/core'
import * as mysqlErrors from '../../packages/mysql/src/connection/errors.ts'
import { isConflict, translate } from '../../packages/postgres/src/connection/errors.ts'
import { prismaOn } from '../../packages/sql/src/transactions/drivers/prisma.ts'

const onPostgres = prismaOn('postgres')
const onMysql = prismaOn('mysql')

/** An error of a raw query, as Prisma 7.10 throws it; `details` as the adapter has described it. */
function prismaError(details: object): Error {
  const adapterError = Object.assign(new Error('of the adapter'), {
    name: 'DriverAdapterError',
    cause: details,
  })
  return Object.assign(new Error('Raw query failed.'), {
    name: 'PrismaClientKnownRequestError',
    code: 'P2010',
    meta: { driverAdapterError: adapterError },
  })
}

/** Of these two the adapter reports the code only as it was, and of all others also as `code`. */
const CONFLICTS = [
  ['a deadlock', { originalCode: '40P01', kind: 'TransactionWriteConflict' }],
  ['a serialization failure', { originalCode: '40001', kind: 'TransactionWriteConflict' }],
  ['a lock that was not available', { originalCode: '55P03', kind: 'postgres', code: '55P03' }],
] as const

/** A transaction in which every statement fails with this error. */
function failing(error: Error): never {
  const run = async (): Promise<never> => {
    throw error
  }
  return { $queryRawUnsafe: run, $executeRawUnsafe: run } as never
}

for (const [name, details] of CONFLICTS) {
  test(`${name} in a statement of txbox is a TransactionConflictError`, async () => {
    const thrown = prismaError({ ...details, originalMessage: 'of the server' })
    const error: unknown = await onPostgres
      .query(failing(thrown), 'update t set n = 1', [])
      .catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: details.originalCode, message: 'of the server', cause: thrown })
    expect(translate(error, 'claiming')).toBeInstanceOf(TransactionConflictError)
  })

  test(`${name} in a statement of a handler asks for a retry`, () => {
    expect(isConflict(prismaError(details))).toBe(true)
    expect(isConflict(new Error('of the user', { cause: prismaError(details) }))).toBe(true)
  })
}

test('another error of the server keeps its code, and is no conflict', async () => {
  const thrown = prismaError({ originalCode: '23505', kind: 'UniqueConstraintViolation' })
  const error: unknown = await onPostgres
    .query(failing(thrown), 'update t set n = 1', [])
    .catch((reason: unknown) => reason)
  expect(error).toMatchObject({ code: '23505' })
  expect([isConflict(error), isConflict(thrown)]).toEqual([false, false])
})

/** As Prisma 7.10 describes a connection that it could not open, or that broke: [its own code, what the adapter tells]. */
const CONNECTING = [
  ['P1001', { kind: 'DatabaseNotReachable', host: '127.0.0.1', port: 9 }, DatabaseUnavailableError],
  ['P1008', { kind: 'SocketTimeout' }, DatabaseUnavailableError],
  ['P1017', { kind: 'ConnectionClosed' }, DatabaseUnavailableError],
  ['P1010', { kind: 'DatabaseAccessDenied', originalCode: '28000' }, DatabaseAccessError],
  ['P1003', { kind: 'DatabaseDoesNotExist', originalCode: '3D000' }, DatabaseAccessError],
] as const

test.for(CONNECTING)(
  '%s, by which Prisma reports a connection, has a class of txbox',
  ([code, details, type]) => {
    const thrown = Object.assign(prismaError(details), { code })
    const error = translate(thrown, 'opening the transaction')
    expect(error).toBeInstanceOf(type)
    expect(error).toMatchObject({ cause: thrown })
    if (type === DatabaseUnavailableError)
      expect(mysqlErrors.translate(thrown, 'opening')).toBeInstanceOf(type)
  },
)

/** As adapter-mariadb describes the errors of the server, and of its connector. */
const MYSQL_CONFLICTS = [
  ['a deadlock', { originalCode: '1213', kind: 'TransactionWriteConflict' }],
  ['a lock wait timeout', { originalCode: '1205', kind: 'mysql', code: 1205, state: 'HY000' }],
] as const

for (const [name, details] of MYSQL_CONFLICTS) {
  test(`on MySQL, ${name} in a statement of txbox or of a handler is a conflict`, async () => {
    const thrown = prismaError(details)
    const error: unknown = await onMysql
      .query(failing(thrown), 'update t set n = 1', [])
      .catch((reason: unknown) => reason)
    expect(error).toMatchObject({ errno: Number(details.originalCode), cause: thrown })
    expect(mysqlErrors.translate(error, 'claiming')).toBeInstanceOf(TransactionConflictError)
    expect(mysqlErrors.isConflict(thrown)).toBe(true)
  })
}

test('on MySQL, a connection that broke in COMMIT is a DatabaseUnavailableError', () => {
  const thrown = prismaError({ originalCode: '45009', kind: 'mysql', code: 45009 })
  expect(mysqlErrors.translate(thrown, 'committing')).toBeInstanceOf(DatabaseUnavailableError)
})

test('on MySQL, a pool that gets no connection in time is a DatabaseUnavailableError, which names the reason', () => {
  const details = {
    originalCode: '45028',
    kind: 'mysql',
    code: 45028,
    cause: 'connect ECONNREFUSED 127.0.0.1:9',
  }
  const error = mysqlErrors.translate(prismaError(details), 'opening the transaction')
  expect(error).toBeInstanceOf(DatabaseUnavailableError)
  expect(String(error)).toContain('ECONNREFUSED')
})

test('on MySQL, the error of a savepoint that cannot be prepared names the option of the adapter', async () => {
  const thrown = prismaError({ originalCode: '1295', kind: 'mysql', code: 1295 })
  const marking = onMysql.query(failing(thrown), 'SAVEPOINT txbox_probe', [])
  await expect(marking).rejects.toThrow(/useTextProtocol: true/)
  await expect(marking).rejects.toThrow(UnsupportedTransactionError)
})

test('a transaction of a Prisma that does not tell its transactions apart is refused, with advice for the database', () => {
  const other = failing(new Error('not sent'))
  const refusals = [() => onMysql.monitor(other), () => onPostgres.identityOf!(other)]
  for (const refusal of refusals) expect(refusal).toThrow(UnsupportedTransactionError)
  expect(refusals[0]).toThrow(/adapter-mariadb.*mysql2/)
  expect(refusals[1]).toThrow(/adapter-pg.*client of pg/)
  expect(refusals[1]).not.toThrow(/MySQL|MariaDB/i)
})

describe('a statement that Prisma has bundled with one that failed', () => {
  /** Prisma resolves the promise of a statement that it did not run with `undefined`. */
  function leavingOut(times: number): { tx: never; sent: () => number } {
    let sent = 0
    const run = async (): Promise<unknown> => (++sent > times ? 1 : undefined)
    return { tx: { $queryRawUnsafe: run, $executeRawUnsafe: run } as never, sent: () => sent }
  }

  for (const driver of [onPostgres, onMysql]) {
    test('is sent again', async () => {
      const { tx, sent } = leavingOut(2)
      expect(await driver.query(tx, 'insert into t values (1)', [])).toMatchObject({ affected: 1 })
      expect(sent()).toBe(3)
    })

    test('is an error if Prisma never runs it', async () => {
      const { tx } = leavingOut(Infinity)
      for (const text of ['insert into t values (1)', 'select 1']) {
        await expect(driver.query(tx, text, [])).rejects.toThrow(UnsupportedTransactionError)
      }
    })
  }
})

test('statements that are sent at once are bundled neither with statements of txbox nor with statements of the caller', async () => {
  const bundles: string[][] = []
  let open: string[] | undefined
  // As Prisma 7.10 does: what is asked for before the next tick is one bundle.
  const run = (text: string): PromiseLike<unknown> => {
    const send = (resolve: (affected: number) => void): void => {
      if (open === undefined) {
        bundles.push((open = []))
        process.nextTick(() => (open = undefined))
      }
      open.push(text)
      resolve(1)
    }
    // oxlint-disable-next-line unicorn/no-thenable -- Prisma's promises send their statement in `then`
    return { then: send } as unknown as PromiseLike<unknown>
  }
  const tx = { $queryRawUnsafe: run, $executeRawUnsafe: run } as never
  await Promise.all([
    onMysql.query(tx, 'insert 1', []),
    run('of the caller'),
    onMysql.query(tx, 'insert 2', []),
    onPostgres.query(tx, 'insert 3', []),
  ])
  expect(bundles).toEqual([['of the caller'], ['insert 1'], ['insert 2'], ['insert 3']])
})

test('a column that an extension has renamed is reported, and not read as NULL', async () => {
  const returning = (row: object): never =>
    ({ $queryRawUnsafe: async () => [row], $executeRawUnsafe: async () => 0 }) as never
  const read = 'select processed_at, result from inbox'
  const { rows } = await onPostgres.query(returning({ processed_at: '1', result: null }), read, [])
  expect(rows).toEqual([{ processed_at: '1', result: null }])
  const camel = onPostgres.query(returning({ processedAt: '1', result: null }), read, [])
  await expect(camel).rejects.toThrow(UnsupportedTransactionError)
  await expect(camel).rejects.toThrow(/'processedAt'.*renames columns/)
})

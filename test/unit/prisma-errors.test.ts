import { expect, test } from 'vitest'
import { TransactionConflictError } from '@txbox/core'
import { isConflict, translate } from '../../packages/postgres/src/errors.ts'
import { prismaHandle } from '../../packages/sql/src/drivers/prisma.ts'

/** An error of a raw query, as Prisma 7.10 with adapter-pg throws it; `details` as the adapter has described it. */
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
    const error: unknown = await prismaHandle
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
  const error: unknown = await prismaHandle
    .query(failing(thrown), 'update t set n = 1', [])
    .catch((reason: unknown) => reason)
  expect(error).toMatchObject({ code: '23505' })
  expect([isConflict(error), isConflict(thrown)]).toEqual([false, false])
})

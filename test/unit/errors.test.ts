import { describe, expect, test } from 'vitest'
import * as core from '@txbox/core'
import {
  InvalidOptionError,
  RetryLaterError,
  TransactionConflictError,
  isTxboxError,
  type TxboxError,
} from '@txbox/core'

const classes: [new (message: string, options?: { cause?: unknown }) => TxboxError, string, boolean][] = [
  [core.InvalidOptionError, 'TXBOX_INVALID_OPTION', false],
  [core.InvalidMessageError, 'TXBOX_INVALID_MESSAGE', false],
  [core.UnsupportedTransactionError, 'TXBOX_UNSUPPORTED_TRANSACTION', false],
  [core.NotInTransactionError, 'TXBOX_NOT_IN_TRANSACTION', false],
  [core.TransactionAbortedError, 'TXBOX_TRANSACTION_ABORTED', false],
  [core.TransactionConflictError, 'TXBOX_TRANSACTION_CONFLICT', true],
  [core.SchemaError, 'TXBOX_SCHEMA', false],
  [core.DatabaseUnavailableError, 'TXBOX_DATABASE_UNAVAILABLE', true],
  [core.DatabaseAccessError, 'TXBOX_DATABASE_ACCESS', false],
  [core.LeaseLostError, 'TXBOX_LEASE_LOST', false],
  [core.ReceiptExpiredError, 'TXBOX_RECEIPT_EXPIRED', false],
  [core.ReceiveAttemptError, 'TXBOX_RECEIVE_ATTEMPT', false],
  [core.BrokerUnavailableError, 'TXBOX_BROKER_UNAVAILABLE', true],
  [core.PermanentError, 'TXBOX_PERMANENT', false],
]

describe.each(classes)('%o', (TheError, code, retryable) => {
  test(`has the code ${code} and is ${retryable ? '' : 'not '}retryable`, () => {
    const cause = new Error('cause')
    const error = new TheError('what happened', { cause })
    expect(error).toMatchObject({ code, retryable, message: 'what happened', cause, name: TheError.name })
    expect(error).toBeInstanceOf(core.TxboxError)
    expect(error).toBeInstanceOf(Error)
    expect(isTxboxError(error)).toBe(true)
    expect('cause' in new TheError('none')).toBe(false)
  })
})

test('RetryLaterError contains the time of the retry', () => {
  expect(new RetryLaterError({ retryAfterMs: 5000 })).toMatchObject({ retryAfterMs: 5000, retryable: true })
  expect(new RetryLaterError().retryAfterMs).toBe(0)
  for (const retryAfterMs of [-1, Number.NaN, Infinity]) {
    expect(() => new RetryLaterError({ retryAfterMs })).toThrow(InvalidOptionError)
  }
})

test('errors are recognized across duplicate installs, and no other value is', async () => {
  // A second copy of the module, as a second installation has it.
  const path = import.meta.resolve('@txbox/core').replace(/index\.js$/, 'errors/errors.js')
  const copy = (await import(`${path}?copy`)) as typeof core
  const foreign = new copy.TransactionConflictError('from the other copy')
  expect(foreign).not.toBeInstanceOf(TransactionConflictError)
  expect(isTxboxError(foreign)).toBe(true)
  for (const other of [new Error('x'), { code: 'TXBOX_SCHEMA' }, null, undefined, 'TXBOX_SCHEMA', 7]) {
    expect(isTxboxError(other)).toBe(false)
  }
})

import { InvalidOptionError, UnsupportedTransactionError, type TransactionLibrary } from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import { hasFunction } from '../members.ts'

const WHY =
  'The function neon() sends each statement as a request of its own, and sql.transaction sends a list of statements that is ' +
  'complete before the first one runs, so that txbox cannot work in one transaction with your statements.'

/**
 * `neon()`, and Drizzle's neon-http on top of it. They cannot keep a transaction open, so they are recognized only to
 * be refused, with an error that says what to pass instead.
 */
export const neonHttp: TransactionLibrary<object, object> = {
  name: 'Neon over HTTP',
  recognises: (handle): handle is object => isOverHttp(handle),
  connectionOf() {
    throw new UnsupportedTransactionError(
      `${WHY} Pass a client of the Pool of '@neondatabase/serverless' after BEGIN, or the transaction of Drizzle's ` +
        'neon-serverless on that Pool. Nothing was written.',
    )
  },
  root: {
    recognises: (root): root is object => isOverHttp(root),
    poolOf() {
      throw new InvalidOptionError(
        `The option 'db' cannot be Neon over HTTP. ${WHY} Pass new Pool(…) of '@neondatabase/serverless', or Drizzle's ` +
          'neon-serverless on that Pool.',
      )
    },
    transact() {
      throw new UnsupportedTransactionError(WHY)
    },
  },
}

function isOverHttp(value: unknown): boolean {
  return isNeon(value) || isNeon(propertyOf(value, '$client'))
}

/** Returns whether the value is a function that `neon()` returned. The function of postgres.js has no `transaction`. */
function isNeon(value: unknown): boolean {
  return (
    typeof value === 'function' &&
    hasFunction(value, 'query') &&
    hasFunction(value, 'unsafe') &&
    hasFunction(value, 'transaction')
  )
}

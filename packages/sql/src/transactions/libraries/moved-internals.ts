import { UnsupportedTransactionError } from '@txbox/core'

/**
 * Returns the error for an open transaction that lacks the undocumented property by which txbox reaches its connection.
 *
 * @param missing the property, as a user would write it.
 * @param tested the versions with which txbox is tested.
 */
export function movedInternals(
  library: string,
  missing: string,
  tested: string,
): UnsupportedTransactionError {
  return new UnsupportedTransactionError(
    `This transaction of ${library} has no '${missing}', where txbox looks for the connection. txbox is tested with ${library} ` +
      `${tested}. Use one of these versions, or wrap the transaction in sqlTransaction. Nothing was written.`,
  )
}

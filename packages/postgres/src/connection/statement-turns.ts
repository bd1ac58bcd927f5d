/*
 * A driver of PostgreSQL may not know the state of the transaction while statements are in flight. Every statement of
 * MySQL and MariaDB is monitored, or the server is asked.
 */
import { NotInTransactionError } from '@txbox/core'
import {
  connectionIdentity,
  type Awaitable,
  type Resolved,
  type Snapshot,
  type SqlResult,
  type TransactionState,
} from '@txbox/sql/transactions'

/**
 * For each connection, the last call that found other statements in flight and waits for its turn. While no call waits
 * there is no entry, unlike in `TurnsByObject`: the next statement must be sent in the same tick.
 */
const turns = new WeakMap<object, Promise<unknown>>()

/**
 * Sends a statement in the same tick in which the state shows that the transaction is open. If the caller did not await
 * txbox and has ended the transaction, nothing is written. Concurrent calls are sent in the order in which they were
 * made.
 */
export function sendInTurn(
  session: Resolved & { readonly since: Snapshot | undefined },
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  const before = turns.get(connectionIdentity(session))
  const state = before === undefined ? stateNow(session) : undefined
  if (state === undefined) return sendLater(session, before, text, values)
  if (state === 'none' || session.since?.replaced === true) throw endedMeanwhile()
  return session.driver.query(session.connection, text, values)
}

/**
 * Returns whether the transaction has been rolled back since the snapshot, or is about to be: a ROLLBACK may be in flight. Asks
 * the server only while statements are in flight.
 */
export function isRollingBack(session: Resolved, since: Snapshot | undefined): Awaitable<boolean> {
  if (since === undefined) return false
  if (since.undone || stateNow(session) !== undefined) return since.undone
  return inTurn(session, turns.get(connectionIdentity(session)), async () => since.undone)
}

/** Sends a statement when the statements in flight have been answered. */
async function sendLater(
  session: Resolved,
  before: Promise<unknown> | undefined,
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  const { driver, connection } = session
  // Until this call has its turn, the connection may have been passed on, and have another transaction.
  const snapshot = snapshotOf(session)
  const { answer } = await inTurn(session, before, async () => {
    if (stateNow(session) === 'none' || snapshot?.replaced === true) throw endedMeanwhile()
    return { answer: driver.query(connection, text, values) }
  })
  return answer
}

function snapshotOf({ driver, connection }: Resolved): Snapshot | undefined {
  const monitor = driver.monitor(connection)
  return monitor instanceof Promise ? undefined : monitor?.snapshot()
}

/** Runs `work` after earlier calls, in the tick in which no statement is in flight. */
async function inTurn<R>(
  session: Resolved,
  before: Promise<unknown> | undefined,
  work: () => Promise<R>,
): Promise<R> {
  const { driver, connection } = session
  const identity = connectionIdentity(session)
  const turn = (before ?? Promise.resolve()).then(async () => {
    // An empty query waits for all statements in flight, and its answer contains the state after them.
    while (stateNow(session) === undefined) await driver.query(connection, '', [])
    return work()
  })
  const ended = turn.catch(() => undefined)
  turns.set(identity, ended)
  try {
    return await turn
  } finally {
    if (turns.get(identity) === ended) turns.delete(identity)
  }
}

/** `undefined` while statements are in flight. */
function stateNow({ driver, connection, isOpen }: Resolved): TransactionState | undefined {
  if (!isOpen()) return 'none'
  return driver.stateNow === undefined ? 'open' : driver.stateNow(connection)
}

export function endedMeanwhile(): NotInTransactionError {
  return new NotInTransactionError(
    'The transaction has ended. Await every call of txbox before you commit or roll back. Nothing was written.',
  )
}

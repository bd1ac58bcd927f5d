import { AsyncLocalStorage } from 'node:async_hooks'
import { Turns, TurnsByObject, oneLine } from '@txbox/core/internal'
import { ReentrantCallError } from '../errors.ts'

interface Place {
  /** The object that represents the database: buffers that were created with the same database object share it. */
  readonly database: object
  readonly consumer: string
  readonly key: string
}

/** A call that is working on a chain. */
class Turn {
  readonly connection: object
  readonly place: Place
  /** The call whose `apply` made this call. */
  readonly outer: Turn | undefined
  /** Calls that `apply` makes on the same connection. */
  readonly inner = new Turns()
  ended = false

  constructor(connection: object, place: Place, outer: Turn | undefined) {
    this.connection = connection
    this.place = place
    this.outer = outer
  }
}

/** The call whose `apply` is running. */
const current = new AsyncLocalStorage<Turn>()

/** For each connection, the turns of the calls that were not made from inside an `apply`. */
const outermost = new TurnsByObject()

/**
 * Runs work on a chain after all earlier calls on the same connection have ended. The lock of a chain belongs to the
 * transaction, so it does not separate two calls in the same transaction.
 *
 * The turns are those of a connection, not of a key: otherwise two calls whose `apply` calls `process` for each
 * other's key would deadlock. A call from inside `apply` runs within the turn of its caller, after the other calls of
 * that `apply`, so that no call waits for itself.
 *
 * @throws {ReentrantCallError} when the call comes from inside `apply` of the same chain.
 */
export async function takeTurn<R>(connection: object, place: Place, work: () => Promise<R>): Promise<R> {
  refuseReentrance(place)
  const outer = running((turn) => turn.connection === connection)
  return (outer?.inner ?? outermost.of(connection)).run(async () => {
    const turn = new Turn(connection, place, current.getStore())
    try {
      return await current.run(turn, work)
    } finally {
      // Waits for calls that `apply` did not await.
      await turn.inner.idle()
      turn.ended = true
    }
  })
}

/**
 * Refuses a call for a chain from inside its own `apply`, because the call would wait for itself: for its turn if it
 * uses the same transaction, or for the lock of the chain if it uses another one.
 */
export function refuseReentrance({ database, consumer, key }: Place): void {
  const same = running(
    ({ place }) => place.database === database && place.consumer === consumer && place.key === key,
  )
  if (same === undefined) return
  throw new ReentrantCallError(
    `version buffer '${oneLine(consumer)}': a call for key '${oneLine(key)}' came from inside 'apply' of the same key, so it would wait for ` +
      "itself. Nothing was written. Make the call after 'process' has returned.",
  )
}

/** Returns the innermost matching call that is still running and that made the current call, directly or indirectly. */
function running(matches: (turn: Turn) => boolean): Turn | undefined {
  for (let turn = current.getStore(); turn !== undefined; turn = turn.outer) {
    if (!turn.ended && matches(turn)) return turn
  }
  return undefined
}

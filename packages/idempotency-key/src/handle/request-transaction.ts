import { isTxboxError, type Session } from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import { attemptsOnConflict, readableDuration, within } from '@txbox/core/internal'
import { HandlerCall, NotKept } from './handler-call.ts'
import { FAILED, UNAVAILABLE, type Problem } from '../response/problems.ts'
import { RequestTimeoutError } from './request-timeout-error.ts'
import type { CheckedResponse } from '../response/response-checks.ts'

const ATTEMPTS = 5
/** How long after `timeoutMs` a rollback, or the answer to COMMIT, is waited for. */
export const GRACE_MS = 2000

/** How much longer than `timeoutMs` the server waits for the next statement of a process that may be frozen. */
const FROZEN_AFTER_MS = 1000

/** How a transaction ended that has no result. */
export type Ending =
  /** The response is sent, and its transaction was rolled back. */
  | { readonly kind: 'handled'; readonly response: CheckedResponse }
  | { readonly kind: 'failed'; readonly problem: Problem; readonly error: unknown }

export interface TransactionSettings {
  readonly timeoutMs: number
  readonly keep: (status: number) => boolean
  /** Whether the handler can be called again after a conflict. */
  readonly canRepeat: boolean
  /** Gives up the handler while it runs. */
  readonly signal: AbortSignal | undefined
}

/**
 * Runs `body` in a transaction, and again after a conflict. At `timeoutMs` the transaction is given up.
 *
 * Rejects only with what the handler has thrown, and with the reason of the signal.
 */
export async function inTransaction<T>(
  ports: ConnectedPorts,
  { timeoutMs, keep, canRepeat, signal }: TransactionSettings,
  body: (tx: unknown, session: Session, call: HandlerCall) => Promise<T>,
): Promise<T | Ending> {
  const late = new AbortController()
  const call = new HandlerCall(late.signal, keep)
  // Made when it is needed: the stack of an error costs as much as the fingerprint of a request.
  const timedOut = (): RequestTimeoutError =>
    new RequestTimeoutError(
      `The handler of a request did not end within ${readableDuration(timeoutMs)} (timeoutMs). Its transaction is rolled back.`,
    )
  const timer = setTimeout(() => late.abort(timedOut()), timeoutMs)
  signal?.addEventListener('abort', () => late.abort(signal.reason))
  const conflicts = {
    isConflict: (error: unknown) => (canRepeat || !call.hasStarted) && ports.isConflict(error),
    isLastingConflict: (error: unknown) => ports.isLastingConflict(error),
  }
  const attempt = (): Promise<T> => {
    call.thrown = undefined
    const transacted = ports.transact((tx, session) => body(tx, session, call), {
      signal: late.signal,
      // A frozen process must not keep its key: the other processes would answer 409 for as long.
      idleLimitMs: timeoutMs + FROZEN_AFTER_MS,
    })
    return transacted.finally(() => call.end())
  }
  const running = attemptsOnConflict(attempt, conflicts, { attempts: ATTEMPTS, signal: late.signal })
    .catch((error: unknown) => {
      signal?.throwIfAborted()
      return endingOf(error, call, ports)
    })
    .finally(() => clearTimeout(timer))
  return within(running, timeoutMs + GRACE_MS, () => {
    // An answer to COMMIT may be lost: from now on, the database says whether the request is in flight.
    call.end()
    return unavailable(timedOut())
  })
}

/** Returns what an error means for the client. @throws the handler's own error. */
async function endingOf(error: unknown, call: HandlerCall, ports: ConnectedPorts): Promise<Ending> {
  if (error instanceof NotKept) return { kind: 'handled', response: error.response }
  if (call.signal.aborted) return unavailable(call.signal.reason)
  if (call.thrown !== undefined) {
    if (ports.isConflict(error) || (await ports.lossOf(error)) !== 'nothing') return unavailable(error)
    throw error
  }
  return failureOf(error, ports)
}

/** Returns what a failure of the database means for the client. */
export function failureOf(error: unknown, ports: Pick<ConnectedPorts, 'isConflict'>): Ending {
  if (ports.isConflict(error) || (isTxboxError(error) && error.retryable)) return unavailable(error)
  return { kind: 'failed', problem: FAILED, error }
}

export function unavailable(error: unknown): Ending {
  return { kind: 'failed', problem: UNAVAILABLE, error }
}

import { setTimeout as pause } from 'node:timers/promises'
import {
  TransactionConflictError,
  exponentialBackoff,
  isTxboxError,
  type AnyMessage,
  type ConnectedPorts,
} from '@txbox/core'
import { OptionChecker } from '@txbox/core/internal'
import type { Inbox, InboxHandler } from './inbox.ts'
import type { InboxOutcome } from './outcome.ts'
import { FIRST_ATTEMPT, TransactionInbox, mustBeFunction, type InboxSettings } from './transaction-inbox.ts'

/** The pause is short: the transaction that won the conflict is about to commit. */
const SHORT_PAUSE = exponentialBackoff({ minMs: 10, maxMs: 1000, attempts: 100 })

/** For clusters: the change that caused the conflict must first arrive from its node. */
const LONG_PAUSE = exponentialBackoff({ minMs: 100, maxMs: 5000, attempts: 100 })

/** The inbox that also opens its own transactions. {@link Inbox} documents its methods. */
export class RunningInbox<Tx, M extends AnyMessage> extends TransactionInbox<M> implements Inbox<Tx, M> {
  readonly #ports: ConnectedPorts

  constructor(ports: ConnectedPorts, settings: InboxSettings<M>) {
    super(ports, settings)
    this.#ports = ports
  }

  async run<N extends M, R>(
    message: N,
    fn: InboxHandler<Tx, N, R>,
    options: { signal?: AbortSignal | undefined; attempts?: number | undefined } = {},
  ): Promise<InboxOutcome<R>> {
    mustBeFunction('run', fn)
    const check = new OptionChecker('run', options).known('signal', 'attempts')
    const attempts = check.integer('attempts', { min: 1, max: SHORT_PAUSE.attempts, default: 5 })
    const signal = check.signal('signal')
    const delivery = this.delivery(message)
    if (delivery.isTooOld) return { status: 'too-old', key: delivery.key.text }
    for (let attempt = 1; ; attempt++) {
      signal?.throwIfAborted()
      try {
        return await this.#ports.transact(
          (tx, session) =>
            this.deliver(session, tx as Tx, delivery, fn, {
              attempt,
              signal: signal ?? FIRST_ATTEMPT.signal,
            }),
          { signal },
        )
      } catch (error) {
        if (!this.#ports.isConflict(error)) throw error
        if (attempt === attempts) throw exhausted(error, attempts)
        const policy = this.#ports.isLastingConflict(error) ? LONG_PAUSE : SHORT_PAUSE
        await pause(policy.delayMs(attempt, Math.random), undefined, signal === undefined ? {} : { signal })
      }
    }
  }
}

/** Adds the number of attempts to an error of txbox; an error of the handler is returned unchanged. */
function exhausted(error: unknown, attempts: number): unknown {
  if (!isTxboxError(error) || error.code !== 'TXBOX_TRANSACTION_CONFLICT') return error
  return new TransactionConflictError(`${error.message} Tried ${attempts} times.`, { cause: error.cause })
}

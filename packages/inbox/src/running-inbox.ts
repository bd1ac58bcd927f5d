import { setTimeout as pause } from 'node:timers/promises'
import {
  OptionChecker,
  TransactionConflictError,
  exponentialBackoff,
  isTxboxError,
  type AnyMessage,
  type ConnectedPorts,
} from '@txbox/core'
import type { Inbox, InboxHandler } from './inbox.ts'
import type { InboxOutcome } from './outcome.ts'
import { FIRST, TransactionInbox, mustBeFunction, type InboxSettings } from './transaction-inbox.ts'

/** Short: whoever was in the way has just won, and is about to commit. */
const PAUSE = exponentialBackoff({ minMs: 10, maxMs: 1000, attempts: 100 })

/** For a cluster: the changed row that caused the conflict has to arrive from its node first. */
const LONGER_PAUSE = exponentialBackoff({ minMs: 100, maxMs: 5000, attempts: 100 })

/** An inbox that also opens transactions of its own. What it promises stands at {@link Inbox}. */
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
    const attempts = check.integer('attempts', { min: 1, max: PAUSE.attempts, default: 5 })
    const signal = check.signal('signal')
    const delivery = this.delivery(message)
    for (let attempt = 1; ; attempt++) {
      signal?.throwIfAborted()
      try {
        return await this.#ports.transact(
          (tx, session) =>
            this.deliver(session, tx as Tx, delivery, fn, { attempt, signal: signal ?? FIRST.signal }),
          { signal },
        )
      } catch (error) {
        if (!this.#ports.isConflict(error)) throw error
        if (attempt === attempts) throw exhausted(error, attempts)
        const policy = this.#ports.isLastingConflict(error) ? LONGER_PAUSE : PAUSE
        await pause(policy.delayMs(attempt, Math.random), undefined, signal === undefined ? {} : { signal })
      }
    }
  }
}

/** Ours says how often it was tried; an error of the handler's own comes out untouched. */
function exhausted(error: unknown, attempts: number): unknown {
  if (!isTxboxError(error) || error.code !== 'TXBOX_TRANSACTION_CONFLICT') return error
  return new TransactionConflictError(`${error.message} Tried ${attempts} times.`, { cause: error.cause })
}

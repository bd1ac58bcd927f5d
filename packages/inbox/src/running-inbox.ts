import {
  TransactionConflictError,
  isTxboxError,
  portsKey,
  type AnyMessage,
  type InboxContext,
  type Loss,
  type RunsMessagesOptions,
  type Session,
} from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import { OptionChecker, attemptsOnConflict, copyMessage } from '@txbox/core/internal'
import type { Inbox, InboxHandler } from './inbox.ts'
import type { InboxOutcome } from './outcome.ts'
import { FIRST_ATTEMPT } from './handler-context.ts'
import {
  TransactionInbox,
  mustBeFunction,
  tooOld,
  type InboxSettings,
  type KeyedMessage,
} from './transaction-inbox.ts'

/** The inbox that can also open its own transactions. {@link Inbox} documents its methods. */
export class RunningInbox<Tx, M extends AnyMessage> extends TransactionInbox<M> implements Inbox<Tx, M> {
  readonly #ports: ConnectedPorts

  constructor(ports: ConnectedPorts, settings: InboxSettings<M>) {
    super(ports, settings)
    this.#ports = ports
  }

  /** A consumer reports to them how many connections it may need. */
  get [portsKey](): ConnectedPorts {
    return this.#ports
  }

  async run<N extends M, R>(
    message: N,
    fn: InboxHandler<Tx, N, R>,
    options: RunOptions = {},
  ): Promise<InboxOutcome<R>> {
    mustBeFunction('run', fn)
    const settings = runSettings('run', options)
    const delivery = this.delivery(message)
    if (this.isKnownTooOld(delivery)) return tooOld(delivery)
    const signal = settings.signal ?? FIRST_ATTEMPT.signal
    const messagesOf = eachAttempt([delivery], settings)
    return await this.spans.one(message, () =>
      this.#transact(settings, (tx, session, attempt) =>
        this.deliver(session, tx, messagesOf(attempt)[0]!, fn, { attempt, signal }),
      ),
    )
  }

  async runBatch<N extends M, R>(
    messages: readonly N[],
    fn: (tx: Tx, fresh: readonly N[], contexts: readonly InboxContext[]) => Promise<R> | R,
    options: RunOptions = {},
  ): Promise<{ outcomes: readonly InboxOutcome<undefined>[]; result?: R }> {
    mustBeFunction('runBatch', fn)
    const settings = runSettings('runBatch', options)
    const deliveries = this.deliveries('runBatch', messages)
    const signal = settings.signal ?? FIRST_ATTEMPT.signal
    const messagesOf = eachAttempt(deliveries, settings)
    return await this.spans.several(messages, () =>
      this.#transact(settings, (tx, session, attempt) =>
        this.deliverBatch(session, tx, messagesOf(attempt), fn, { attempt, signal }),
      ),
    )
  }

  lossOf(error: unknown): Promise<Loss> {
    return this.#ports.lossOf(error)
  }

  /** Runs `work` in a new transaction, and repeats it after a conflict. */
  #transact<T>(
    { signal, attempts, onConflict }: RunSettings,
    work: (tx: Tx, session: Session, attempt: number) => Promise<T>,
  ): Promise<T> {
    const transact = async (attempt: number): Promise<T> => {
      try {
        return await this.#ports.transact((tx, session) => work(tx as Tx, session, attempt), { signal })
      } catch (error) {
        throw attempt === attempts ? exhausted(error, attempts) : error
      }
    }
    return attemptsOnConflict(transact, this.#ports, { attempts, signal, onConflict })
  }
}

interface RunOptions extends RunsMessagesOptions {
  attempts?: number | undefined
}

interface RunSettings {
  readonly signal: AbortSignal | undefined
  readonly attempts: number
  readonly copy: boolean
  readonly onConflict: RunsMessagesOptions['onConflict']
}

function runSettings(where: string, options: RunOptions): RunSettings {
  const check = new OptionChecker(where, options).known('signal', 'attempts', 'copy', 'onConflict')
  return {
    signal: check.signal('signal'),
    attempts: check.integer('attempts', { min: 1, max: 100, default: 5 }),
    copy: check.flag('copy', true),
    onConflict: check.callback('onConflict'),
  }
}

/** Returns the messages of an attempt: the caller's own messages first, and then copies that were made before. */
function eachAttempt<N>(
  deliveries: readonly KeyedMessage<N>[],
  { copy }: RunSettings,
): (attempt: number) => readonly KeyedMessage<N>[] {
  if (!copy) return () => deliveries
  const received = deliveries.map(({ message }) => copyMessage(message))
  return (attempt) =>
    attempt === 1
      ? deliveries
      : deliveries.map((delivery, n) => ({ ...delivery, message: copyMessage(received[n]!) }))
}

/** Adds the number of attempts to an error of txbox; an error of the handler is returned unchanged. */
function exhausted(error: unknown, attempts: number): unknown {
  if (!isTxboxError(error) || error.code !== 'TXBOX_TRANSACTION_CONFLICT') return error
  return new TransactionConflictError(`${error.message} Tried ${attempts} times.`, { cause: error.cause })
}

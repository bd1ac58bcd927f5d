import { TransactionAbortedError, isTxboxError, type Session } from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import { attemptsOnConflict, causing, propertyOf, type Cause } from '@txbox/core/internal'
import { isTransactionAborted, mayHaveCommitted } from '../errors/failure-kind.ts'
import type { LocalDelivery } from '../local/local-delivery-port.ts'
import { wakeLocalConsumers } from '../local/local-hub.ts'
import type { ConsumerSettings, WorkSettings } from '../options/consumer-settings.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import type { HandlerCall } from './handler-call.ts'
import { handlerContext } from './handler-context.ts'
import { PlainWork } from './plain-work.ts'
import { resultOf, type Handler, type Work, type WorkResult } from './work.ts'

/** The maximum number of attempts of a transaction that the database asks to repeat. */
const ATTEMPTS = 5

/** How long after its time limit a handler counts as frozen. */
const FROZEN_AFTER_MS = 1000

const SKIPPED: WorkResult = { outcome: 'skipped' }

type LocalSettings = Extract<WorkSettings, { kind: 'local' }>

/** The result of a handler's transaction. */
interface Done {
  /** The messages that could be locked. Only they were handled. */
  readonly locked: readonly HeldDelivery[]
  readonly result: unknown
}

/**
 * The work of a local consumer: effect once without a claim, unless the handler of the type is marked by `atLeastOnce`. The first
 * statement of the transaction locks the message, and the last one removes it, so that only one of two processes that have read the
 * same message can commit. The messages of one call have one type.
 */
export class LocalWork implements Work {
  readonly isAllOrNothing = true
  readonly #ports: ConnectedPorts
  readonly #work: LocalSettings
  readonly #settings: ConsumerSettings
  /** The types that are handled at least once. */
  readonly #plain = new Map<string, PlainWork>()

  constructor(work: LocalSettings, settings: ConsumerSettings) {
    this.#ports = work.ports
    this.#work = work
    this.#settings = settings
    for (const [type, { handler, isAtLeastOnce }] of work.handlers) {
      if (isAtLeastOnce) this.#plain.set(type, new PlainWork({ isManual: false }, { ...settings, handler }))
    }
  }

  alone(held: HeldDelivery, call: HandlerCall): Promise<WorkResult> {
    const may = deliveryOf(held).mayBegin()
    if (may === true) return this.#alone(held, call)
    return Promise.resolve(may).then((begins) => (begins ? this.#alone(held, call) : SKIPPED))
  }

  together(batch: readonly HeldDelivery[], call: HandlerCall): readonly Promise<WorkResult>[] {
    const may = batch.map((held) => deliveryOf(held).mayBegin())
    if (may.every((begins) => begins === true)) return this.#together(batch, call)
    const results = Promise.all(may.map((begins) => Promise.resolve(begins))).then((all) =>
      all.every((begins) => begins) ? this.#together(batch, call) : undefined,
    )
    return batch.map(async (_, n) => (await results)?.[n] ?? SKIPPED)
  }

  #alone(held: HeldDelivery, call: HandlerCall): Promise<WorkResult> {
    const plain = this.#plain.get(held.message.type ?? '')
    if (plain !== undefined) return plain.alone(held, call)
    if (this.#settings.batch !== undefined) return this.#together([held], call)[0]!
    return this.#single(held, call)
  }

  #together(batch: readonly HeldDelivery[], call: HandlerCall): readonly Promise<WorkResult>[] {
    const [first] = batch
    const plain = this.#plain.get(first!.message.type ?? '')
    if (plain !== undefined) return plain.together(batch, call)
    const done = this.#attempts(batch, call, (tx, locked, attempt) => {
      const messages = locked.map(({ message }) => message)
      const contexts = locked.map((held) => handlerContext(held, this.#settings, call, attempt))
      return this.#handlerOf(first!)(tx, messages, contexts)
    })
    return batch.map(async (held): Promise<WorkResult> => {
      const { locked, result } = await done
      return locked.includes(held) ? resultOf(result) : SKIPPED
    })
  }

  async #single(held: HeldDelivery, call: HandlerCall): Promise<WorkResult> {
    const { locked, result } = await this.#attempts([held], call, (tx, _, attempt) =>
      this.#handlerOf(held)(tx, held.message, handlerContext(held, this.#settings, call, attempt)),
    )
    return locked.length === 0 ? SKIPPED : resultOf(result)
  }

  #handlerOf({ message: { type = '' } }: HeldDelivery): Handler {
    const found = this.#work.handlers.get(type)
    if (found !== undefined) return found.handler as unknown as Handler
    throw new Error(`The local consumer has no handler for the type '${type}'.`)
  }

  /** Repeats the transaction as long as the database asks for that. */
  #attempts(
    batch: readonly HeldDelivery[],
    call: HandlerCall,
    handle: (tx: unknown, locked: readonly HeldDelivery[], attempt: number) => unknown,
  ): Promise<Done> {
    return attemptsOnConflict(
      (attempt) => {
        if (attempt > 1) for (const held of batch) held.renewMessage()
        return this.#transact(batch, call, (tx, locked) => handle(tx, locked, attempt))
      },
      this.#ports,
      {
        attempts: ATTEMPTS,
        signal: call.givenUp,
        onConflict(error, delayMs) {
          for (const held of batch) held.reportConflict(error, delayMs)
        },
      },
    )
  }

  async #transact(
    batch: readonly HeldDelivery[],
    call: HandlerCall,
    handle: (tx: unknown, locked: readonly HeldDelivery[]) => unknown,
  ): Promise<Done> {
    let isRefused = false
    let hasPublished = false
    const stored = (): void => void (hasPublished = true)
    let done: Done
    call.isOwnStatement = true
    try {
      done = await this.#ports.transact(
        async (tx, session) => {
          let locked: readonly HeldDelivery[]
          try {
            locked = await lockedOf(batch, session)
          } catch (error) {
            isRefused = this.#ports.isConflict(error)
            throw error
          }
          call.isOwnStatement = false
          if (locked.length === 0) return { locked, result: undefined }
          call.hasWritten = true
          const result = await this.#watched(session, () =>
            causing(tx, { ...causeOf(locked), stored }, () => handle(tx, locked)),
          )
          await removed(locked, session, call)
          return { locked, result }
        },
        {
          isolation: this.#work.isolation,
          signal: call.givenUp,
          // For a process that is frozen, and cannot give the call up itself.
          idleLimitMs: this.#settings.handleTimeoutMs + FROZEN_AFTER_MS,
        },
      )
    } catch (error) {
      // Another transaction has changed a message since the snapshot of this one: as if nothing could be locked.
      if (isRefused) return { locked: [], result: undefined }
      throw error
    }
    for (const held of done.locked) {
      held.isSettled = true
      deliveryOf(held).committed()
    }
    if (hasPublished) wakeLocalConsumers(this.#ports)
    return done
  }

  /**
   * Calls the handler, and finds out whether the handler has ended its transaction, also when it has failed. The message must not be
   * removed then, because the removal would be a transaction of its own.
   */
  async #watched(session: Session, handler: () => unknown): Promise<unknown> {
    let failure: { readonly error: unknown } | undefined
    try {
      const result = await this.#ports.watch(session, async () => {
        try {
          return await handler()
        } catch (error) {
          failure = { error }
          return undefined
        }
      })
      if (failure === undefined) return result
    } catch (error) {
      if (mayHaveCommitted(error))
        throw endedByHandler(failure === undefined ? propertyOf(error, 'cause') : failure.error)
      if (failure === undefined) throw error
    }
    throw failure.error
  }
}

function causeOf(batch: readonly HeldDelivery[]): Cause {
  const [first, ...others] = batch.map(({ message }) => message)
  const correlationId = first!.correlationId ?? first!.id
  if (others.length === 0) return { correlationId, causationId: first!.id }
  const isShared = others.every((message) => (message.correlationId ?? message.id) === correlationId)
  return { correlationId: isShared ? correlationId : undefined, causationId: undefined }
}

function deliveryOf({ delivery }: HeldDelivery): LocalDelivery {
  return delivery as LocalDelivery
}

/**
 * Locks the messages at the same time, so that the source can lock them with one statement. Waits for all of them even if one fails:
 * the transaction must not end while statements are in flight.
 *
 * @returns the messages that are locked, without the keys of which a message is not.
 */
async function lockedOf(batch: readonly HeldDelivery[], session: Session): Promise<readonly HeldDelivery[]> {
  const [first] = batch
  if (batch.length === 1) return (await deliveryOf(first!).lockInSession(session)) ? batch : []
  const answers = await allOf(batch.map((held) => deliveryOf(held).lockInSession(session)))
  const missing = batch.filter((_, n) => !answers[n]!)
  if (missing.length === 0) return batch
  const keys = new Set(missing.map(({ delivery }) => delivery.key))
  return batch.filter(({ delivery: { key } }, n) => answers[n]! && (key === undefined || !keys.has(key)))
}

async function removed(batch: readonly HeldDelivery[], session: Session, call: HandlerCall): Promise<void> {
  call.isOwnStatement = true
  try {
    if (batch.length === 1) await deliveryOf(batch[0]!).removeInSession(session)
    else await allOf(batch.map((held) => deliveryOf(held).removeInSession(session)))
    call.isOwnStatement = false
  } catch (error) {
    // The handler itself may have removed the message, or have rolled back to a savepoint from before its lock.
    if (isTransactionAborted(error)) call.isOwnStatement = false
    // A call of the handler that nothing awaited has ended the transaction after the handler had returned.
    const hasEnded = isTxboxError(error) && error.code === 'TXBOX_NOT_IN_TRANSACTION'
    if (hasEnded) call.isOwnStatement = false
    throw hasEnded ? endedByHandler(error) : error
  }
}

async function allOf<T>(running: readonly Promise<T>[]): Promise<readonly T[]> {
  const settled = await Promise.allSettled(running)
  return settled.map((each) => {
    if (each.status === 'rejected') throw each.reason
    return each.value
  })
}

function endedByHandler(cause: unknown): TransactionAbortedError {
  return new TransactionAbortedError(
    'The handler ended its transaction in the middle: by a COMMIT, by another BEGIN, or on MySQL and MariaDB by a statement that ' +
      'commits, such as DDL. So what it had written may be committed, and the removal of its message is not. The message is not ' +
      'handled again, because that could repeat these effects. Look at what the handler has written before you redrive or discard ' +
      'the message. In a handler, do not commit, and let errors of statements leave the handler.',
    { cause, mayHaveCommitted: true },
  )
}

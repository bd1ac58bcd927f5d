import {
  InvalidMessageError,
  InvalidOptionError,
  LIMITS,
  TransactionConflictError,
  type AnyMessage,
  type InboxContext,
  type KeyExtractor,
  type Session,
} from '@txbox/core'
import type { Claim, ClaimOptions, ClaimResult, DatabasePorts } from '@txbox/core/ports'
import { inboxKey, nameOf, oneLine, type InboxKey } from '@txbox/core/internal'
import { FIRST_ATTEMPT, HandlerContext, type HandlerAttempt } from './handler-context.ts'
import type { DetachedInbox, DuplicateEvent, InboxHandler } from './inbox.ts'
import type { InboxSpans } from './inbox-spans.ts'
import { DatabaseClock } from './database-clock.ts'
import { contentHash, sentAt } from './message-checks.ts'
import type { InboxOutcome } from './outcome.ts'
import { parseResult, resultText } from './stored-result.ts'

export interface InboxSettings<M> {
  readonly consumer: string
  readonly extractKey: KeyExtractor<M & AnyMessage>
  readonly retentionMs: number
  readonly maxAgeMs: number | undefined
  /** The options of claims before a handler. */
  readonly claimOptions: ClaimOptions
  readonly storeResult: boolean
  readonly refusesMismatch: boolean
  readonly onDuplicate: ((event: DuplicateEvent<M>) => void) | undefined
  readonly spans: InboxSpans
}

export interface KeyedMessage<N> {
  readonly message: N
  readonly key: InboxKey
  readonly claim: Claim
  /** In milliseconds since 1970. `undefined` if messages of any age are accepted. */
  readonly sentAt: number | undefined
}

/** The inbox that works in the caller's transactions. {@link DetachedInbox} documents its methods. */
export class TransactionInbox<M extends AnyMessage> implements DetachedInbox<M> {
  readonly consumer: string
  protected readonly spans: InboxSpans
  readonly #ports: DatabasePorts
  readonly #settings: InboxSettings<M>
  readonly #clock = new DatabaseClock()

  constructor(ports: DatabasePorts, settings: InboxSettings<M>) {
    this.consumer = settings.consumer
    this.spans = settings.spans
    this.#ports = ports
    this.#settings = settings
  }

  async process<H extends object, N extends M, R>(
    tx: H,
    message: N,
    fn: InboxHandler<H, N, R>,
  ): Promise<InboxOutcome<R>> {
    mustBeFunction('process', fn)
    const delivery = this.delivery(message)
    if (this.isKnownTooOld(delivery)) return tooOld(delivery)
    return await this.spans.one(message, async () => {
      const session = await this.#ports.bind(tx)
      return await this.deliver(session, tx, delivery, fn, FIRST_ATTEMPT)
    })
  }

  async processBatch<H extends object, N extends M, R>(
    tx: H,
    messages: readonly N[],
    fn: (tx: H, fresh: readonly N[], contexts: readonly InboxContext[]) => Promise<R> | R,
  ): Promise<{ outcomes: readonly InboxOutcome<undefined>[]; result?: R }> {
    mustBeFunction('processBatch', fn)
    const deliveries = this.deliveries('processBatch', messages)
    return await this.spans.several(messages, async () => {
      const session = await this.#ports.bind(tx)
      return await this.deliverBatch(session, tx, deliveries, fn)
    })
  }

  async hasProcessed(tx: unknown, message: M): Promise<boolean> {
    const { claim } = this.delivery(message)
    return this.#ports.inbox.find(await this.#ports.bind(tx), claim.consumer, claim.key)
  }

  async markProcessed(tx: unknown, message: M): Promise<'recorded' | 'duplicate'> {
    const delivery = this.delivery(message)
    const session = await this.#ports.bind(tx)
    const result = await this.#ports.inbox.claim(session, delivery.claim, this.#settings.claimOptions)
    if (result.status === 'won') return 'recorded'
    if (result.status === 'in-flight') throw inFlight(delivery.key)
    this.#duplicate(delivery, result)
    return 'duplicate'
  }

  async forget(tx: unknown, message: M): Promise<boolean> {
    const { claim } = this.delivery(message)
    return this.#ports.inbox.remove(await this.#ports.bind(tx), claim.consumer, claim.key)
  }

  keyTextOf(message: M): string {
    return inboxKey(this.#settings.extractKey(message), this.consumer).text
  }

  protected async deliver<H, N extends M, R>(
    session: Session,
    tx: H,
    delivery: KeyedMessage<N>,
    fn: InboxHandler<H, N, R>,
    attempt: HandlerAttempt,
  ): Promise<InboxOutcome<R>> {
    const { inbox } = this.#ports
    if (this.#needsTime(delivery)) await this.#clock.measure(() => inbox.clock(session))
    if (this.#isTooOld(delivery)) return tooOld(delivery)
    const claimed = await inbox.claimToHandle(session, delivery.claim, this.#settings.claimOptions)
    if (claimed.status === 'duplicate') return this.#duplicate(delivery, claimed)
    if (claimed.status === 'in-flight') return { status: 'in-flight', key: delivery.key.text }
    const context = new HandlerContext(this.consumer, delivery.key, attempt)
    const result = await claimed.run(async () => {
      // The claim may have waited, and the transaction may have been given up in the meantime.
      attempt.signal.throwIfAborted()
      const returned = await fn(tx, delivery.message, context)
      if (this.#settings.storeResult) {
        const text = resultText(returned, delivery.key)
        if (text !== undefined) await inbox.saveResult(session, delivery.claim, text)
      }
      return returned
    })
    return { status: 'processed', key: delivery.key.text, result }
  }

  /** @throws {InvalidMessageError} before anything is written. */
  protected deliveries<N extends M>(where: string, messages: readonly N[]): readonly KeyedMessage<N>[] {
    if (!Array.isArray(messages) || messages.length > LIMITS.batchMessages) {
      throw new InvalidMessageError(
        `${where}: expected a list of at most ${LIMITS.batchMessages} messages, not ` +
          `${Array.isArray(messages) ? `${messages.length}` : nameOf(messages)}. Nothing was written.`,
      )
    }
    return Array.from(messages, (message: N) => this.delivery(message))
  }

  protected async deliverBatch<H, N extends M, R>(
    session: Session,
    tx: H,
    deliveries: readonly KeyedMessage<N>[],
    fn: (tx: H, fresh: readonly N[], contexts: readonly InboxContext[]) => Promise<R> | R,
    attempt = FIRST_ATTEMPT,
  ): Promise<{ outcomes: readonly InboxOutcome<undefined>[]; result?: R }> {
    if (deliveries.some((one) => this.#needsTime(one))) {
      await this.#clock.measure(() => this.#ports.inbox.clock(session))
    }
    const current = deliveries.filter((delivery) => !this.#isTooOld(delivery))
    const claims = current.map((delivery) => delivery.claim)
    const claimed = await this.#ports.inbox.claimBatchToHandle(session, claims, this.#settings.claimOptions)
    const resultOf = new Map(current.map((delivery, index) => [delivery, claimed.results[index]!]))

    const fresh: KeyedMessage<N>[] = []
    const outcomes = deliveries.map((delivery): InboxOutcome<undefined> => {
      const { text: key } = delivery.key
      const result = resultOf.get(delivery)
      if (result === undefined) return tooOld(delivery)
      if (result.status === 'in-flight') return { status: 'in-flight', key }
      if (result.status === 'duplicate') return this.#duplicate(delivery, result)
      fresh.push(delivery)
      return { status: 'processed', key, result: undefined }
    })
    if (fresh.length === 0) return { outcomes }
    const freshMessages = fresh.map((delivery) => delivery.message)
    const contexts = fresh.map((delivery) => new HandlerContext(this.consumer, delivery.key, attempt))
    const result = await claimed.run(() => {
      // The claims may have waited, and the transaction may have been given up in the meantime.
      attempt.signal.throwIfAborted()
      return fn(tx, freshMessages, contexts)
    })
    return { outcomes, result }
  }

  /** Checks a message and extracts its key. @throws {InvalidMessageError} before anything is written. */
  protected delivery<N extends M>(message: N): KeyedMessage<N> {
    if (typeof message !== 'object' || message === null) {
      throw new InvalidMessageError(
        `Expected a message with an id, not ${nameOf(message)}. Nothing was written.`,
      )
    }
    const { consumer, extractKey, retentionMs, maxAgeMs, refusesMismatch } = this.#settings
    const key = inboxKey(extractKey(message), consumer)
    const correlationId = checkCorrelationId(message.correlationId, key)
    const claim = { consumer, key: key.stored, correlationId, retentionMs }
    return {
      message,
      key,
      claim: refusesMismatch ? { ...claim, contentHash: contentHash(message) } : claim,
      sentAt: maxAgeMs === undefined ? undefined : sentAt(message, key),
    }
  }

  /** Returns whether the message is too old, if that is known without a question to the database. */
  protected isKnownTooOld(delivery: KeyedMessage<M>): boolean {
    return !this.#clock.isStale && this.#isTooOld(delivery)
  }

  #isTooOld(delivery: KeyedMessage<M>): boolean {
    const { maxAgeMs = Infinity } = this.#settings
    return delivery.sentAt !== undefined && this.#clock.now - delivery.sentAt > maxAgeMs
  }

  /** Returns whether the age of the message matters, and the database was asked for its time too long ago. */
  #needsTime({ sentAt }: KeyedMessage<M>): boolean {
    return sentAt !== undefined && this.#clock.isStale
  }

  #duplicate<N extends M>(delivery: KeyedMessage<N>, first: FirstDelivery): InboxOutcome<never> {
    const { onDuplicate, storeResult } = this.#settings
    const { message, key, claim } = delivery
    const { firstProcessedAt, correlationId } = first
    if (claim.contentHash !== undefined && first.contentHash !== undefined) {
      if (Buffer.compare(claim.contentHash, first.contentHash) !== 0) throw mismatch(key, first)
    }
    const event = {
      consumer: this.consumer,
      key: key.text,
      message,
      firstProcessedAt,
      ...(correlationId === undefined ? {} : { firstCorrelationId: correlationId }),
    }
    // An error of `onDuplicate` must not change the outcome: a metric that fails must not turn an acknowledgement into
    // a redelivery. The async function also catches the rejection of an async callback.
    void (async () => onDuplicate?.(event))().catch(() => undefined)
    const outcome = { status: 'duplicate', key: key.text, firstProcessedAt } as const
    if (!storeResult || first.result === undefined) return outcome
    return { ...outcome, result: parseResult(first.result, key) as never }
  }
}

export function tooOld({ key }: { readonly key: InboxKey }): { status: 'too-old'; key: string } {
  return { status: 'too-old', key: key.text }
}

/** The claim that makes a delivery a duplicate. */
type FirstDelivery = Omit<Extract<ClaimResult, { status: 'duplicate' }>, 'status'>

function mismatch(key: InboxKey, { firstProcessedAt }: FirstDelivery): InvalidMessageError {
  return new InvalidMessageError(
    `The message with the key '${oneLine(key.text)}' has another payload than the message with this key that was ` +
      `processed at ${firstProcessedAt.toISOString()}. Check the key, which must be another for other content. The ` +
      'handler did not run.',
  )
}

function inFlight(key: InboxKey): TransactionConflictError {
  return new TransactionConflictError(
    `Another delivery of the message with the key '${oneLine(key.text)}' is in flight. Roll back, and try again.`,
  )
}

export function mustBeFunction(where: string, fn: unknown): void {
  if (typeof fn !== 'function') {
    throw new InvalidOptionError(
      `${where}: expected a handler function, not ${nameOf(fn)}. Nothing was written.`,
    )
  }
}

function checkCorrelationId(value: unknown, key: InboxKey): string | undefined {
  if (value === undefined || value === null) return undefined
  const { correlationIdCharacters: max } = LIMITS
  if (typeof value !== 'string' || value.length > max || value.includes('\0') || !value.isWellFormed()) {
    throw new InvalidMessageError(
      `The message with the key '${oneLine(key.text)}' has a correlation id that cannot be stored: expected text of at most ` +
        `${max} characters without NUL or lone surrogates, not ${nameOf(value)}. Nothing was written.`,
    )
  }
  return value
}

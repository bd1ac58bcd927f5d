import { setTimeout as pause } from 'node:timers/promises'
import { ReceiptExpiredError, isTxboxError } from '@txbox/core'
import type { Queue, Received } from '@txbox/queue'
import type { TransactionHandle } from '@txbox/core'
import type { QueueUnderTest } from './queue-under-test.ts'
import { randomFrom } from '../worlds/random.ts'
import type { OpenTransaction, Root, Target } from '../engines/target.ts'

export const VISIBILITY_MS = 1000
/** Longer than the lease of a message. */
const TOO_LONG_MS = 1150
const KEYS = 24

/** A message whose transaction has committed; times are on the monotonic clock. */
interface SentMessage {
  readonly id: string
  readonly key: string | undefined
  readonly before: number
  readonly after: number
  readonly transaction: object
}

/** The message of a key that a receiver holds, and until when no other receiver may get a message of the key. */
interface Held {
  readonly id: string
  readonly until: number
}

/**
 * Senders and receivers that cause everything that can go wrong: late commits, rollbacks, receivers that are lost, refusals,
 * handlers slower than their lease with their transaction open.
 */
export class QueueStorm {
  readonly sent: SentMessage[] = []
  readonly dead = new Set<string>()
  /** The violations that were found. */
  readonly violations: string[] = []
  readonly counts: Record<string, number> = {}
  readonly #target: Target
  readonly #subject: QueueUnderTest
  readonly #seed: number
  readonly #held = new Map<string, Held>()
  /** The message of each key that a transaction works on. */
  readonly #working = new Map<string, string>()
  #sending = true

  constructor(target: Target, subject: QueueUnderTest, seed: number) {
    this.#target = target
    this.#subject = subject
    this.#seed = seed
  }

  /** Sends `messages` messages by several senders, and receives them by `receivers` receivers until none is left. */
  async run(root: Root, { messages, receivers }: { messages: number; receivers: number }): Promise<void> {
    const senders = [1, 2, 3].map((n) =>
      this.#send(root, randomFrom(this.#seed + n), Math.ceil(messages / 3)),
    )
    const receiving = Array.from({ length: receivers }, (_, n) =>
      this.#receive(root, randomFrom(this.#seed + 100 + n)),
    )
    await Promise.all(senders)
    this.#sending = false
    await Promise.all(receiving)
  }

  /** Compares what was handled with what was sent. */
  async check(): Promise<void> {
    const prefix = `${this.#subject.queue.name} `
    const rows = await this.#target.sql('select name from effects where name like ? order by seq', [
      `${prefix}%`,
    ])
    const handled = rows.map(({ name }) => String(name).slice(prefix.length))
    const position = new Map(handled.map((id, at) => [id, at]))
    for (const [at, id] of handled.entries()) {
      if (position.get(id) !== at) this.violations.push(`doubled: ${id}`)
    }
    const known = new Set(this.sent.map(({ id }) => id))
    for (const id of handled) if (!known.has(id)) this.violations.push(`never committed: ${id}`)
    for (const { id } of this.sent) {
      const ends = Number(position.has(id)) + Number(this.dead.has(id))
      if (ends !== 1) this.violations.push(`${ends === 0 ? 'lost' : 'handled and dead'}: ${id}`)
    }
    for (const earlier of this.sent) {
      for (const later of this.sent) {
        if (earlier.key === undefined || earlier.key !== later.key || !isBefore(earlier, later)) continue
        const [one, other] = [position.get(earlier.id), position.get(later.id)]
        if (one !== undefined && other !== undefined && one > other) {
          this.violations.push(`out of order: ${later.id} before ${earlier.id} of ${earlier.key}`)
        }
      }
    }
  }

  async #send(root: Root, random: () => number, messages: number): Promise<void> {
    for (let left = messages; left > 0;) {
      const transaction = await root.begin()
      const committed: Omit<SentMessage, 'after' | 'transaction'>[] = []
      for (let n = Math.min(left, 1 + Math.floor(random() * 3)); n > 0; n -= 1) {
        const key = keyOf(random)
        const before = performance.now()
        const { id } = await this.#subject.sendIn(transaction, key === undefined ? {} : { key })
        committed.push({ id, key, before })
      }
      if (random() < 0.2) await pause(40 + random() * 120)
      if (random() < 0.15) {
        await transaction.rollback()
        continue
      }
      await transaction.commit()
      const after = performance.now()
      for (const each of committed) this.sent.push({ ...each, after, transaction })
      left -= committed.length
      await pause(random() * 20)
    }
  }

  async #receive(root: Root, random: () => number): Promise<void> {
    const queue = this.#subject.twin(root, { visibilityTimeoutMs: VISIBILITY_MS, maxReceives: 1000 })
    for (;;) {
      const called = performance.now()
      const received = await queue.receive({ limit: 1 + Math.floor(random() * 4), waitMs: 100 })
      this.#note(received, called)
      if (received.length === 0 && !this.#sending && (await this.#subject.size()) === 0) return
      for (const each of received) await this.#handle(root, queue, each, random)
    }
  }

  /** A message that is received while its key is certainly held is a violation. */
  #note(received: readonly Received[], called: number): void {
    const answered = performance.now()
    const keys = received.flatMap(({ key }) => key ?? [])
    if (new Set(keys).size < keys.length) this.violations.push(`two of a key in one answer: ${keys.join()}`)
    for (const { key, message } of received) {
      const name = key ?? message.id
      const held = this.#held.get(name)
      if (held !== undefined && held.until > answered) {
        this.violations.push(`received ${message.id} of ${name} while ${held.id} was held`)
      }
      this.#held.set(name, { id: message.id, until: called + VISIBILITY_MS })
    }
  }

  async #handle(
    root: Root,
    queue: Queue<TransactionHandle>,
    received: Received,
    random: () => number,
  ): Promise<void> {
    const name = received.key ?? received.message.id
    const letGo = (): void => {
      if (this.#held.get(name)?.id === received.message.id) this.#held.delete(name)
    }
    const chance = random()
    if (chance < 0.06) return this.#count('lost')
    if (chance < 0.1) {
      letGo()
      return this.#settle('released', () =>
        queue.release(received, { delayMs: random() * 50, counted: random() < 0.5, error: 'refused' }),
      )
    }
    if (chance < 0.12) {
      letGo()
      const bury = async (): Promise<void> => {
        await queue.bury(received, { error: 'never' })
        this.dead.add(received.message.id)
      }
      return this.#settle('buried', bury)
    }
    if (chance < 0.13) await pause(TOO_LONG_MS)
    const work = await root.begin()
    try {
      const slow = chance > 0.965
      await this.#work(queue, received, work, { slow })
      letGo()
      if (chance > 0.94 && chance < 0.985) {
        await work.rollback()
        this.#count(slow ? 'slower than the lease and rolled back' : 'rolled back')
      } else {
        await work.commit()
        this.#count(slow ? 'slower than the lease and handled' : 'handled')
      }
    } catch (error) {
      this.#end(name, received)
      await work.rollback()
      if (!isExpected(error)) throw error
      this.#count('refused')
    }
    this.#end(name, received)
  }

  async #work(
    queue: Queue<TransactionHandle>,
    received: Received,
    work: OpenTransaction,
    { slow }: { slow: boolean },
  ): Promise<void> {
    const { id } = received.message
    const name = received.key ?? id
    await queue.delete(received, { tx: work.tx })
    const other = this.#working.get(name)
    if (other !== undefined) this.violations.push(`two at once of ${name}: ${other} and ${id}`)
    this.#working.set(name, id)
    this.#held.set(name, { id, until: Infinity })
    await this.#target.effect(work.tx, `${this.#subject.queue.name} ${id}`)
    if (slow) await pause(TOO_LONG_MS)
    this.#working.delete(name)
  }

  #end(name: string, { message }: Received): void {
    if (this.#working.get(name) === message.id) this.#working.delete(name)
    if (this.#held.get(name)?.id === message.id) this.#held.delete(name)
  }

  async #settle(what: string, settle: () => Promise<void>): Promise<void> {
    try {
      await settle()
      this.#count(what)
    } catch (error) {
      if (!isExpected(error)) throw error
      this.#count('refused')
    }
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }
}

/** Within a transaction the order is that of the calls; a transaction is before another if it has committed before. */
function isBefore(earlier: SentMessage, later: SentMessage): boolean {
  return earlier.transaction === later.transaction
    ? earlier.before < later.before
    : earlier.after < later.before
}

/** A quarter of the messages have the hot key, and a tenth have none. */
function keyOf(random: () => number): string | undefined {
  const chance = random()
  if (chance < 0.1) return undefined
  return chance < 0.3 ? 'hot' : `key-${Math.floor(random() * (KEYS - 1))}`
}

function isExpected(error: unknown): boolean {
  return (
    error instanceof ReceiptExpiredError ||
    (isTxboxError(error) && error.code === 'TXBOX_TRANSACTION_CONFLICT')
  )
}

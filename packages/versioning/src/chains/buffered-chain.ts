import { InvalidMessageError, TransactionConflictError, type Session } from '@txbox/core'
import type { ChainPosition, DatabasePorts, VersionChain, WaitingChange } from '@txbox/core/ports'
import { oneLine } from '@txbox/core/internal'
import { assertStepFits } from '../rules/version-step.ts'
import { VersionDivergedError } from '../errors.ts'
import type { BufferedDeadLetter, DeadLetterReason, VersionedMessage } from './version-buffer.ts'
import { messageOf, readMessage } from './stored-message.ts'
import { asKindOf, type Version } from '../version.ts'

/** The maximum number of waiting messages that are in memory at the same time. */
const BATCH = 50

export interface ChainSettings {
  readonly consumer: string
  readonly apply: (tx: unknown, message: VersionedMessage<unknown, Version>) => unknown
  readonly firstVersion: bigint
  readonly maxWaiting: number
  readonly maxAgeMs: number
}

export interface Delivered {
  readonly status: 'applied' | 'stale' | 'waiting' | 'dead-lettered'
  readonly version: bigint
  readonly followed: number
}

/** The work on one chain in one transaction, under the lock of the chain. */
export class BufferedChain {
  readonly #ports: DatabasePorts
  readonly #settings: ChainSettings
  readonly #session: Session
  readonly #tx: unknown
  readonly #chain: VersionChain
  /** The messages that became dead letters during this work. */
  readonly deadLettered: BufferedDeadLetter<unknown, Version>[] = []

  constructor(
    ports: DatabasePorts,
    settings: ChainSettings,
    { session, tx, key }: { session: Session; tx: unknown; key: string },
  ) {
    this.#ports = ports
    this.#settings = settings
    this.#session = session
    this.#tx = tx
    this.#chain = { consumer: settings.consumer, key }
  }

  async deliver(change: WaitingChange): Promise<Delivered> {
    const position = await this.#lock()
    if (change.to <= position.version) {
      return { status: 'stale', version: position.version, followed: 0 }
    }
    if (change.from > position.version) {
      const status = await this.#wait(change, position)
      return { status, version: position.version, followed: 0 }
    }
    assertStepFits(this.#doing, this.#message(change), position.version)
    await this.#apply(change)
    return { status: 'applied', ...(await this.#applyFollowing(position, change.to)) }
  }

  /**
   * Sets the chain to a version and applies the messages that have waited for it. Earlier messages are stale from then
   * on.
   */
  async resync(version: bigint): Promise<{ version: bigint; followed: number }> {
    return this.#applyFollowing(await this.#lock(), version)
  }

  /** Turns messages that have waited too long into dead letters. */
  async expire(): Promise<void> {
    const { version } = await this.#lock()
    await this.#move(version, version, -(await this.#deadLetterOverdue()))
  }

  async redrive(change: WaitingChange): Promise<Delivered | undefined> {
    await this.#lock()
    return (await this.discard(change.from)) ? this.deliver(change) : undefined
  }

  async discard(from: bigint): Promise<boolean> {
    return (await this.#store.remove(this.#session, this.#chain, [from], { dead: true })) > 0
  }

  get #store(): DatabasePorts['versions'] {
    return this.#ports.versions
  }

  get #doing(): string {
    return `version buffer '${oneLine(this.#chain.consumer)}': key '${oneLine(this.#chain.key)}'`
  }

  #lock(): Promise<ChainPosition> {
    return this.#store.lock(this.#session, this.#chain, this.#settings.firstVersion)
  }

  async #wait(change: WaitingChange, position: ChainPosition): Promise<'waiting' | 'dead-lettered'> {
    const existing = await this.#store.store(this.#session, this.#chain, change)
    if (existing !== undefined && existing.to !== change.to) throw this.#forked(change, existing.to, position)
    if (existing !== undefined) return existing.dead ? 'dead-lettered' : 'waiting'
    let added = 1
    const excess = position.waiting + 1 - this.#settings.maxWaiting
    if (excess > 0) {
      const options = { order: 'last', limit: excess } as const
      const last = await this.#store.waiting(this.#session, this.#chain, options)
      added -= await this.#deadLetter(last, 'too-many')
    }
    if (position.waiting > 0) added -= await this.#deadLetterOverdue()
    await this.#move(position.version, position.version, added)
    return this.deadLettered.some(({ message }) => BigInt(message.from) === change.from)
      ? 'dead-lettered'
      : 'waiting'
  }

  /** Applies the changes that have waited for the version that the chain reaches, and records the new position. */
  async #applyFollowing(from: ChainPosition, to: bigint): Promise<{ version: bigint; followed: number }> {
    let version = to
    let { waiting } = from
    let followed = 0
    while (waiting > 0) {
      const options = { order: 'first', limit: BATCH } as const
      const batch = await this.#store.waiting(this.#session, this.#chain, options)
      const done: bigint[] = []
      const diverged: WaitingChange[] = []
      const unreadable: WaitingChange[] = []
      for (const change of batch) {
        if (change.from > version) break
        if (change.from < version && change.to > version) {
          diverged.push(change)
          continue
        }
        if (change.from === version) {
          if (readMessage(this.#chain.key, change) === undefined) {
            unreadable.push(change)
            continue
          }
          await this.#apply(change)
          version = change.to
          followed++
        }
        done.push(change.from)
      }
      const buried =
        (await this.#deadLetter(diverged, 'diverged')) + (await this.#deadLetter(unreadable, 'unreadable'))
      const settled = done.length + buried
      await this.#store.remove(this.#session, this.#chain, done, { dead: false })
      waiting -= settled
      if (settled === 0) break
    }
    await this.#move(from.version, version, waiting - from.waiting)
    return { version, followed }
  }

  async #move(from: bigint, to: bigint, waiting: number): Promise<void> {
    if (from === to && waiting === 0) return
    if (await this.#store.move(this.#session, this.#chain, { from, to, waiting })) return
    throw new TransactionConflictError(
      `${this.#doing} was moved from version ${from} in the same transaction by a call that is not queued with this one ` +
        '(another copy of @txbox/versioning, or a change by hand). Roll back and run the transaction again.',
    )
  }

  async #apply(change: WaitingChange): Promise<void> {
    const message = readMessage(this.#chain.key, change)
    if (message === undefined) {
      throw new InvalidMessageError(
        `${this.#doing}: the row of the message from version ${change.from} to ${change.to} was altered by hand, so that it holds no ` +
          'message. Nothing was written. Correct the row, or discard the dead letter.',
      )
    }
    await this.#ports.watch(this.#session, () => this.#settings.apply(this.#tx, message))
  }

  async #deadLetterOverdue(): Promise<number> {
    const { maxAgeMs } = this.#settings
    return this.#deadLetter(await this.#store.overdue(this.#session, this.#chain, maxAgeMs), 'too-old')
  }

  async #deadLetter(changes: readonly WaitingChange[], reason: DeadLetterReason): Promise<number> {
    if (changes.length === 0) return 0
    const from = changes.map((change) => change.from)
    await this.#store.bury(this.#session, this.#chain, from, reason)
    const { consumer } = this.#chain
    this.deadLettered.push(...changes.map((change) => ({ consumer, message: this.#message(change), reason })))
    return changes.length
  }

  #message(change: WaitingChange): VersionedMessage<unknown, Version> {
    return messageOf(this.#chain.key, change)
  }

  #forked(change: WaitingChange, otherTo: bigint, { version }: ChainPosition): VersionDivergedError {
    const { from, to } = this.#message(change)
    return new VersionDivergedError(
      `${this.#doing}: a message from version ${from} to ${to} arrived, but a message from ${from} to ${otherTo} is already stored: ` +
        'two writers have based changes on the same version. Nothing was written. Find out which writer is right.',
      { from, to, actual: asKindOf(this.#doing, from, version) },
    )
  }
}

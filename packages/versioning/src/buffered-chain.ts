import {
  TransactionConflictError,
  oneLine,
  type ChainPosition,
  type DatabasePorts,
  type Session,
  type VersionChain,
  type WaitingChange,
} from '@txbox/core'
import { assertStepFits } from './apply-version.ts'
import { VersionDivergedError } from './errors.ts'
import type { BufferedDeadLetter, DeadLetterReason, VersionedMessage } from './version-buffer.ts'
import { asKindOf, type Version } from './version.ts'

/** How many waiting messages are in memory at a time. */
const BATCH = 50

const SAMPLES: Readonly<Record<string, Version>> = { number: 0, bigint: 0n, string: '' }

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

/** What is done to one chain, in one transaction, under its lock. */
export class BufferedChain {
  readonly #ports: DatabasePorts
  readonly #settings: ChainSettings
  readonly #session: Session
  readonly #tx: unknown
  readonly #chain: VersionChain
  /** What became a dead letter meanwhile. */
  readonly buried: BufferedDeadLetter<unknown, Version>[] = []

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
    return { status: 'applied', ...(await this.#goOn(position, change.to)) }
  }

  /** A new beginning: what is below it is stale. */
  async resync(version: bigint): Promise<{ version: bigint; followed: number }> {
    return this.#goOn(await this.#lock(), version)
  }

  /** Gives up what has waited too long. */
  async expire(): Promise<void> {
    const { version } = await this.#lock()
    await this.#move(version, version, -(await this.#buryOverdue()))
  }

  /** Takes a dead letter out and delivers it anew. */
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
    const there = await this.#store.store(this.#session, this.#chain, change)
    if (there !== undefined && there.to !== change.to) throw this.#forked(change, there.to, position)
    if (there !== undefined) return there.dead ? 'dead-lettered' : 'waiting'
    let added = 1
    const tooMany = position.waiting + 1 - this.#settings.maxWaiting
    if (tooMany > 0) {
      const options = { order: 'last', limit: tooMany } as const
      const last = await this.#store.waiting(this.#session, this.#chain, options)
      added -= await this.#bury(last, 'too-many')
    }
    if (position.waiting > 0) added -= await this.#buryOverdue()
    await this.#move(position.version, position.version, added)
    return this.buried.some(({ message }) => BigInt(message.from) === change.from)
      ? 'dead-lettered'
      : 'waiting'
  }

  /** Applies the changes that have waited for the version that the chain reaches, and records how far the chain came. */
  async #goOn(from: ChainPosition, to: bigint): Promise<{ version: bigint; followed: number }> {
    let version = to
    let { waiting } = from
    let followed = 0
    while (waiting > 0) {
      const options = { order: 'first', limit: BATCH } as const
      const batch = await this.#store.waiting(this.#session, this.#chain, options)
      const done: bigint[] = []
      const passed: WaitingChange[] = []
      for (const change of batch) {
        if (change.from > version) break
        if (change.from < version && change.to > version) {
          passed.push(change)
          continue
        }
        if (change.from === version) {
          await this.#apply(change)
          version = change.to
          followed++
        }
        done.push(change.from)
      }
      const settled = done.length + (await this.#bury(passed, 'diverged'))
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
      `${this.#doing} was moved from version ${from} in the same transaction by a call that takes no turns with this one (of ` +
        'another copy of @txbox/versioning, or by hand). Roll back and run the transaction again.',
    )
  }

  async #apply(change: WaitingChange): Promise<void> {
    await this.#ports.watch(this.#session, () => this.#settings.apply(this.#tx, this.#message(change)))
  }

  async #buryOverdue(): Promise<number> {
    const { maxAgeMs } = this.#settings
    return this.#bury(await this.#store.overdue(this.#session, this.#chain, maxAgeMs), 'too-old')
  }

  async #bury(changes: readonly WaitingChange[], reason: DeadLetterReason): Promise<number> {
    if (changes.length === 0) return 0
    const from = changes.map((change) => change.from)
    await this.#store.bury(this.#session, this.#chain, from, reason)
    const { consumer } = this.#chain
    this.buried.push(...changes.map((change) => ({ consumer, message: this.#message(change), reason })))
    return changes.length
  }

  #message(change: WaitingChange): VersionedMessage<unknown, Version> {
    return messageOf(this.#chain.key, change)
  }

  #forked(change: WaitingChange, otherTo: bigint, { version }: ChainPosition): VersionDivergedError {
    const { from, to } = this.#message(change)
    return new VersionDivergedError(
      `${this.#doing}: a message from ${from} to ${to} came, and one from ${from} to ${otherTo} is stored already: two writers have gone ` +
        'on from one version. Nothing was written. Find out which of them is right.',
      { from, to, actual: asKindOf(this.#doing, from, version) },
    )
  }
}

/** A message as its sender made it, after a trip through JSON. */
export function messageOf(key: string, change: WaitingChange): VersionedMessage<unknown, Version> {
  const sample = SAMPLES[change.kind] ?? ''
  return {
    key,
    from: asKindOf('version buffer', sample, change.from),
    to: asKindOf('version buffer', sample, change.to),
    payload: JSON.parse(change.payload) as unknown,
  }
}

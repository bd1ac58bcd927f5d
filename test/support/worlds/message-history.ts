import type { OutboxMessage } from '@txbox/core'
import type { BacklogMessage } from '@txbox/core/ports'
import type { RelayWitness } from '../subjects/mortal-relay.ts'

/** The events of one message so far. They are counted, because two answers of the database may arrive in any order. */
interface Fate {
  readonly id: string
  readonly key: string | undefined
  readonly deliverAt: Date | undefined
  rolledBack: boolean
  committed: boolean
  /** The broker has received the message. */
  accepted: boolean
  /** The message was removed from the backlog as accepted. */
  settled: boolean
  deaths: number
  redrives: number
  discards: number
  /** When its last redrive was answered. */
  redrivenAt: number
}

/**
 * Records the events of some messages, and finds violations: a message that is published after it was settled,
 * while it is dead, too early, once too often, or before its predecessor in the order of its key.
 */
export class MessageHistory implements RelayWitness {
  readonly violations: string[] = []
  readonly died: (owner: string) => void
  readonly #fates = new Map<string, Fate>()
  /** The fates of the ordered messages of a key, in order. */
  readonly #ordered = new Map<string, Fate[]>()
  /** When the read began with which a relay got a message, by relay and id. */
  readonly #inHand = new Map<string, number>()
  readonly #attempts: number
  #instant = 0
  /** Redrives in flight: their messages may be published before the redrives are answered. */
  redriving = 0

  constructor(attempts: number, died: (owner: string) => void) {
    this.#attempts = attempts
    this.died = died
  }

  now(): number {
    return ++this.#instant
  }

  /** Must be called for each message that an open transaction has stored, in order. */
  stored(id: string, key: string | undefined, deliverAt: Date | undefined): void {
    const fate: Fate = {
      ...{ id, key, deliverAt, rolledBack: false, committed: false, accepted: false, settled: false },
      ...{ deaths: 0, redrives: 0, discards: 0, redrivenAt: 0 },
    }
    this.#fates.set(id, fate)
    if (key === undefined || deliverAt !== undefined) return
    const fates = this.#ordered.get(key) ?? []
    fates.push(fate)
    this.#ordered.set(key, fates)
  }

  ended(ids: readonly string[], how: 'commit' | 'rollback'): void {
    for (const id of ids) this.#fates.get(id)![how === 'commit' ? 'committed' : 'rolledBack'] = true
  }

  reads(owner: string, messages: readonly BacklogMessage[], begunAt: number): void {
    for (const { id } of messages) this.#inHand.set(`${owner} ${id}`, begunAt)
  }

  settles(accepted: readonly string[], buried: readonly string[]): void {
    for (const id of accepted) this.#fates.get(id)!.settled = true
    for (const id of buried) this.#fates.get(id)!.deaths += 1
  }

  redriven(ids: readonly string[]): void {
    const at = this.now()
    for (const id of ids) {
      const fate = this.#fates.get(id)!
      fate.redrives += 1
      fate.redrivenAt = at
    }
  }

  discarded(ids: readonly string[]): void {
    for (const id of ids) this.#fates.get(id)!.discards += 1
  }

  /** Must be called when a relay passes the message to its publisher, behind the other messages of the same call. */
  tried(owner: string, { id, attempt }: OutboxMessage, before: readonly OutboxMessage[]): void {
    const fate = this.#fates.get(id)
    if (fate === undefined) return this.#violation(`${id} was never stored`)
    if (fate.rolledBack) this.#violation(`${id} was rolled back, and is published`)
    if (fate.settled) this.#violation(`${id} was settled, and is published again`)
    if (isDead(fate) && this.redriving === 0) this.#violation(`${id} is dead or discarded, and is published`)
    if (attempt < 1 || attempt > this.#attempts) this.#violation(`${id} is tried for the ${attempt}. time`)
    if (fate.deliverAt !== undefined) {
      if (Date.now() < fate.deliverAt.getTime()) this.#violation(`${id} is early`)
      return
    }
    if (fate.key === undefined) return
    const readAt = this.#inHand.get(`${owner} ${id}`) ?? 0
    for (const other of this.#ordered.get(fate.key)!) {
      if (other === fate) break
      if (other.rolledBack || other.accepted || isDead(other)) continue
      if (before.some((message) => message.id === other.id)) continue
      // It was redriven while the relay already had this message.
      if (other.redrives > 0 && other.redrivenAt >= readAt) continue
      this.#violation(`${id} is published before ${other.id} of its key ${fate.key}`)
    }
  }

  accepted(id: string): void {
    const fate = this.#fates.get(id)
    if (fate !== undefined) fate.accepted = true
  }

  /** The ids of the current dead letters. */
  dead(): string[] {
    return this.#all((fate) => isDead(fate) && fate.discards === 0)
  }

  /** The committed messages that are neither published nor dead nor discarded. */
  lost(): string[] {
    return this.#all((fate) => fate.committed && !fate.accepted && !isDead(fate))
  }

  /** The messages that were redriven or discarded more often than they died. */
  touchedTwice(): string[] {
    return this.#all(({ deaths, redrives, discards }) => redrives + discards > deaths)
  }

  redrives(): number {
    return [...this.#fates.values()].reduce((sum, { redrives }) => sum + redrives, 0)
  }

  #all(which: (fate: Fate) => boolean): string[] {
    return [...this.#fates.values()].filter(which).map(({ id }) => id)
  }

  #violation(what: string): void {
    this.violations.push(what)
  }
}

/** Includes discarded messages. */
function isDead({ deaths, redrives }: Fate): boolean {
  return deaths > redrives
}

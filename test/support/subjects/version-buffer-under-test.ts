import { randomUUID } from 'node:crypto'
import { TransactionConflictError, type TransactionHandle } from '@txbox/core'
import {
  createVersionBuffer,
  type BufferedDeadLetter,
  type VersionBuffer,
  type VersionBufferOptions,
  type VersionBufferOutcome,
  type VersionedMessage,
} from '@txbox/versioning'
import type { Root, Target } from '../engines/target.ts'

export type Payload = { readonly n: number }
type Options = VersionBufferOptions<TransactionHandle, Payload, number>

/** A version buffer with its own consumer. An applied change is an effect: `consumer key from-to`. */
export class VersionBufferUnderTest {
  readonly consumer = `buffer-${randomUUID()}`
  readonly buffer: VersionBuffer<TransactionHandle, Payload>
  readonly deadLetters: BufferedDeadLetter<Payload>[] = []
  readonly #target: Target
  readonly #root: Root

  constructor(target: Target, root: Root, options: Partial<Options> = {}) {
    this.#target = target
    this.#root = root
    this.buffer = createVersionBuffer<TransactionHandle, Payload>({
      database: root.database,
      consumer: this.consumer,
      apply: (tx, message) => this.effect(tx, message),
      onDeadLetter: (event) => void this.deadLetters.push(event),
      ...options,
    })
  }

  effect(tx: TransactionHandle, { key, from, to }: VersionedMessage<Payload>): Promise<void> {
    return this.#target.effect(tx, `${this.consumer} ${key} ${from}-${to}`)
  }

  /** Delivers as a consumer does: begin, process, commit; roll back after any error. */
  async deliver(key: string, from: number, to = from + 1): Promise<VersionBufferOutcome> {
    const transaction = await this.#root.begin()
    try {
      const outcome = await this.buffer.process(transaction.tx, { key, from, to, payload: { n: to } })
      await transaction.commit()
      return outcome
    } catch (error) {
      await transaction.rollback()
      throw error
    }
  }

  /** Delivers as a broker does: again as long as the database reports conflicts. */
  async deliverUntilSettled(key: string, from: number, to = from + 1): Promise<VersionBufferOutcome> {
    for (;;) {
      try {
        return await this.deliver(key, from, to)
      } catch (error) {
        if (!(error instanceof TransactionConflictError)) throw error
      }
    }
  }

  /** The changes that were applied to a key, in order: `0-1`, `1-2`, … */
  async applied(key: string): Promise<string[]> {
    const prefix = `${this.consumer} ${key} `
    const rows = await this.#target.sql('select name from effects where name like ? order by seq', [
      `${this.consumer} %`,
    ])
    const names = rows.map((row) => String(row['name']))
    return names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length))
  }

  /** Messages of this consumer that are stored, waiting or dead. */
  async stored(): Promise<number> {
    const table = this.#target.engine === 'postgres' ? 'txbox.waiting' : 'txbox_waiting'
    const consumer = this.#target.engine === 'postgres' ? this.consumer : Buffer.from(this.consumer)
    const [row] = await this.#target.sql(`select count(*) as n from ${table} where consumer = ?`, [consumer])
    return Number(row?.['n'])
  }

  /** The version that each key of this consumer has reached, and its count of waiting messages. */
  async positions(): Promise<Record<string, readonly [version: number, waiting: number]>> {
    const postgres = this.#target.engine === 'postgres'
    const [table, key] = postgres ? ['txbox.versions', 'key'] : ['txbox_versions', 'cast(`key` as char)']
    const rows = await this.#target.sql(
      `select ${key} as chain, version, waiting from ${table} where consumer = ? order by chain`,
      [postgres ? this.consumer : Buffer.from(this.consumer)],
    )
    return Object.fromEntries(
      rows.map((row) => [String(row['chain']), [Number(row['version']), Number(row['waiting'])]]),
    )
  }

  /** Makes all waiting messages older. */
  async age(ms: number): Promise<void> {
    if (this.#target.engine === 'postgres') {
      await this.#target.sql(
        `update txbox.waiting set received_at = received_at - ? * interval '1 millisecond' where consumer = ?`,
        [ms, this.consumer],
      )
    } else {
      await this.#target.sql(
        'update txbox_waiting set received_at = received_at - interval ? microsecond where consumer = ?',
        [ms * 1000, Buffer.from(this.consumer)],
      )
    }
  }
}

/** The steps of a chain, one version each: `0-1`, `1-2`, … */
export function steps(from: number, to: number): string[] {
  return Array.from({ length: to - from }, (_, n) => `${from + n}-${from + n + 1}`)
}

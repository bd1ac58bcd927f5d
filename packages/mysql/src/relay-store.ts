import {
  LeaseLostError,
  TransactionConflictError,
  type BacklogMessage,
  type Lease,
  type ParkedSettlement,
  type ReadLimits,
  type Refusal,
  type RelayStore,
  type Settlement,
  type ShardWork,
} from '@txbox/core'
import { toMessages, toStored, withinBytes, type Row, type StoredMessage } from './backlog-message.ts'
import { bytesOf, fill, textOf, type Value } from './literals.ts'
import type { parkedStatements } from './parked-statements.ts'
import type { relayStatements } from './relay-statements.ts'
import { runAlone, runTogether, type Source } from './run-alone.ts'
import type { Run } from './short-transaction.ts'

const SETTLING = 'settling messages'

/** Each key that goes on is a branch of a statement. */
const MOST_ONWARD = 100

/** The outbox table of MySQL and MariaDB and that of parked messages, for the relay. The contract is that of the port. */
export class MysqlRelayStore implements RelayStore {
  readonly #sql: ReturnType<typeof relayStatements>
  readonly #parked: ReturnType<typeof parkedStatements>
  readonly #source: Source

  constructor(
    statements: ReturnType<typeof relayStatements>,
    parked: ReturnType<typeof parkedStatements>,
    source: Source,
  ) {
    this.#sql = statements
    this.#parked = parked
    this.#source = source
  }

  async read(shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    const values = [inlineBytes(limits), shard, shard, shard, limits.messages]
    const rows = await this.#read(this.#sql.read, values)
    return toMessages(withinBytes(rows.map(toStored), limits.bytes), shard, async (seq) => {
      const [row] = await this.#read(this.#sql.readPayload, [shard, seq])
      return row?.['payload']
    })
  }

  async readDue(lease: Lease, shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    const heads = await this.#heads(lease, shard, limits)
    // One that was never tried has been released after its predecessor: those behind it may go along.
    const onward = heads
      .filter((row) => row['order_key'] !== null && textOf(row['attempts']) === '0')
      .slice(0, MOST_ONWARD)
    const alone = heads.filter((row) => row['order_key'] === null || textOf(row['attempts']) !== '0')
    const mostBytes = inlineBytes(limits)
    const stored: StoredMessage[] = []
    if (alone.length > 0) {
      const rows = await this.#read(this.#parked.readAlone, [mostBytes, json(placesOf(alone))])
      stored.push(...rows.map(toStored))
    }
    if (onward.length > 0) {
      const most = Math.ceil(limits.messages / onward.length)
      const branches = onward.map((row) =>
        fill(this.#parked.readOnward, [mostBytes, shard, bytesOf(row['order_key']), placeOf(row), most]),
      )
      const rows = await this.#read(branches.join('\nunion all'), [])
      stored.push(...withoutLater(rows.map(toStored)))
    }
    return toMessages(withinBytes(stored, limits.bytes), shard, async (place) => {
      const [row] = await this.#read(this.#parked.readPayload, [place])
      return row?.['payload']
    })
  }

  /** What is due and comes first in its key. What does not is put back into the line behind its predecessor. */
  async #heads(lease: Lease, shard: number, limits: ReadLimits): Promise<readonly Row[]> {
    for (;;) {
      const due = await this.#read(this.#parked.due, [shard, shard, limits.messages])
      const heads = due.filter(
        (row) => row['first'] === null || textOf(row['first']) === textOf(row['place']),
      )
      if (heads.length === due.length) return due
      const following = placesOf(due.filter((row) => !heads.includes(row)))
      await this.#settle(lease, (run) => run(this.#parked.follow, [json(following)]))
      if (heads.length > 0) return heads
    }
  }

  async settle(lease: Lease, shard: number, settlement: Settlement): Promise<void> {
    const { refused, behind } = settlement
    const accepted = settlement.accepted.map(({ seq }) => seq)
    if (refused.length + behind.length === 0) return this.#settleAccepted(lease, shard, accepted)
    const verdicts = [
      ...refused.map(verdictOf),
      ...behind.map((seq) => verdict(seq, { attempts: 0, dead: 0 })),
    ]
    const moved = [...refused.map(({ seq }) => seq), ...behind]
    await this.#settle(lease, async (run) => {
      const parked = await run(this.#sql.park, [json(verdicts), shard])
      const removed = await run(this.#sql.remove, [json(moved), shard])
      if (parked.affected !== removed.affected) {
        throw new TransactionConflictError(
          `${parked.affected} messages were parked, but ${removed.affected} taken from the outbox: somebody else deletes ` +
            'messages there. Nothing was changed; it is tried again.',
        )
      }
      if (accepted.length > 0) await run(this.#sql.remove, [json(accepted), shard])
    })
  }

  async settleParked(lease: Lease, shard: number, settlement: ParkedSettlement): Promise<void> {
    const { accepted, refused, released } = settlement
    await this.#settle(lease, async (run) => {
      if (accepted.length > 0) await run(this.#parked.remove, [json(accepted)])
      if (refused.length > 0) await run(this.#parked.keep, [json(refused.map(verdictOf))])
      if (released.length === 0) return
      const branches = released.map(({ key, after }) =>
        fill(this.#parked.next, [shard, Buffer.from(key), after]),
      )
      const { rows } = await run(branches.join('\nunion all'), [])
      const next = placesOf(rows.filter((row) => textOf(row['waits']) === '1'))
      if (next.length > 0) await run(this.#parked.release, [json(next)])
    })
  }

  async work(shards: readonly number[]): Promise<readonly ShardWork[]> {
    if (shards.length === 0) return []
    const asked = shards.flatMap((shard) => [
      fill(this.#sql.hasBacklog, [shard, shard]),
      fill(this.#sql.hasDue, [shard, shard]),
    ])
    const rows = await this.#read(asked.join('\nunion all'), [])
    const found = new Map<number, boolean>()
    for (const row of rows) {
      const shard = Number(textOf(row['shard']))
      found.set(shard, found.get(shard) === true || textOf(row['due']) === '1')
    }
    return [...found].map(([shard, due]) => ({ shard, due }))
  }

  async #settleAccepted(lease: Lease, shard: number, accepted: readonly bigint[]): Promise<void> {
    const values = [json(accepted), shard, ...fence(lease)]
    const { affected } = await runAlone(this.#source, SETTLING, this.#sql.settle, values)
    if (affected > 0) return
    const { rows } = await runAlone(this.#source, SETTLING, this.#sql.isHeld, fence(lease))
    if (rows.length === 0) throw leaseLost(lease)
  }

  async #settle(lease: Lease, work: (run: Run) => Promise<unknown>): Promise<void> {
    const held = await runTogether(this.#source, SETTLING, async (run) => {
      const { rows } = await run(this.#sql.holdOn, fence(lease))
      if (rows.length > 0) await work(run)
      return rows.length > 0
    })
    if (!held) throw leaseLost(lease)
  }

  async #read(text: string, values: readonly Value[]): Promise<readonly Row[]> {
    return (await runAlone(this.#source, 'reading the outbox', text, values)).rows
  }
}

function leaseLost({ name, owner, term }: Lease): LeaseLostError {
  return new LeaseLostError(
    `The lease '${name}' of term ${term} is no longer held by '${owner}': what it published last was not settled and ` +
      'will be published again, with the same ids, by the new owner.',
  )
}

/** With this bound on each payload that comes along, all of them together stay within `bytes`. */
function inlineBytes(limits: ReadLimits): number {
  return Math.floor(limits.bytes / limits.messages)
}

function fence({ name, owner, term }: Lease): readonly Value[] {
  return [Buffer.from(name), Buffer.from(owner), term]
}

function placeOf(row: Row): bigint {
  return BigInt(textOf(row['place']))
}

function placesOf(rows: readonly Row[]): readonly bigint[] {
  return rows.map(placeOf)
}

function verdictOf({ seq, attempts, error, retryInMs }: Refusal): string {
  if (retryInMs === undefined) return verdict(seq, { attempts, dead: 1, error })
  return verdict(seq, { attempts, dead: 0, error, retry_us: Math.round(retryInMs * 1000) })
}

/**
 * A row of `verdictsTable`. What it has not is left out: MySQL 8.0.19 refuses the `null` of JSON where a number is wanted.
 * JSON.stringify has no way to write a bigint.
 */
function verdict(
  number: bigint,
  rest: {
    readonly attempts: number
    readonly dead: 0 | 1
    readonly error?: string
    readonly retry_us?: number
  },
): string {
  return `{"number":${number},${JSON.stringify(rest).slice(1)}`
}

function json(values: readonly (bigint | string)[]): string {
  return `[${values.join(',')}]`
}

/** Of each key no more than what comes before one that has to wait longer. */
function withoutLater(stored: readonly StoredMessage[]): readonly StoredMessage[] {
  const stopped = new Set<string | undefined>()
  return stored.filter(({ key, row }) => {
    if (row['later'] !== null) stopped.add(key)
    return !stopped.has(key)
  })
}

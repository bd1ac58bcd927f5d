import { randomUUID } from 'node:crypto'
import { onTestFinished } from 'vitest'
import type { IsolationLevel } from '@txbox/core'
import type {
  ConnectedPorts,
  Lease,
  LeaseStore,
  LocalMessage,
  LocalRead,
  LocalRefusal,
  LocalRow,
  LocalSettlement,
  LocalStore,
} from '@txbox/core/ports'
import { connectedPortsOf } from '@txbox/core/internal'
import type { OutboxTarget } from '../engines/outbox-target.ts'
import type { Target } from '../engines/target.ts'

/** The place of the messages of a `LocalStoreUnderTest`. */
export const AT = { consumer: 'billing', shard: 3 } as const

export const LIMITS = { messages: 100, bytes: 1_000_000 }

const NOTHING: LocalSettlement = { accepted: [], refused: [], behind: [] }

/** A transaction of a handler, which holds the locks on its messages until it ends. */
export interface OpenHandler {
  /** The ids of the messages that could be locked. */
  readonly locked: readonly string[]
  /** Removes the messages, and commits. */
  commit(): Promise<void>
  rollback(): Promise<void>
}

/** The ports that a local consumer uses, without a consumer: one lease of one shard. */
export class LocalStoreUnderTest {
  readonly ports: ConnectedPorts
  readonly store: LocalStore
  readonly leases: LeaseStore
  readonly #target: Target
  readonly #outbox: OutboxTarget
  #lease: Lease | undefined

  constructor(root: { readonly database: object }, target: Target, outbox: OutboxTarget) {
    this.ports = connectedPortsOf('test', root.database)
    this.store = this.ports.local({ statementTimeoutMs: 10_000 })
    this.leases = this.ports.leases()
    this.#target = target
    this.#outbox = outbox
    onTestFinished(() => this.leases.close())
  }

  get lease(): Lease {
    if (this.#lease === undefined) throw new Error('The lease is taken first.')
    return this.#lease
  }

  async takeLease(owner = 'a', ttlMs = 60_000): Promise<Lease> {
    const [lease] = await this.leases.acquire(['local/billing/03'], { owner, ttlMs, limit: 1 })
    if (lease === undefined) throw new Error('The lease is not free.')
    this.#lease = lease
    return lease
  }

  table(name: string): string {
    return this.#target.engine === 'postgres' ? `txbox.${name}` : `txbox_${name}`
  }

  /** Commits one message for each of these keys, in this order. @returns their ids */
  async publish(...keys: readonly (string | undefined)[]): Promise<readonly string[]> {
    const { ids, text, parameters } = this.insertOf(keys)
    await this.#outbox.sql(text, parameters)
    return ids
  }

  /** A statement that stores one message for each of these keys. */
  insertOf(
    keys: readonly (string | undefined)[],
    { consumer = AT.consumer, shard = AT.shard }: { consumer?: string; shard?: number } = {},
  ): { readonly ids: readonly string[]; readonly text: string; readonly parameters: readonly unknown[] } {
    const ids = keys.map(() => randomUUID())
    const isPostgres = this.#target.engine === 'postgres'
    const now = isPostgres ? 'clock_timestamp()' : 'utc_timestamp(6)'
    const rows = keys.map(() => `(?, ${shard}, ?, ?, 'made', 'application/json', '{}', ?, ${now})`)
    return {
      ids,
      text: `insert into ${this.table('local_outbox')}
         (consumer, shard, id, ${isPostgres ? 'key' : '`key`'}, type, content_type, headers, payload, created_at)
       values ${rows.join(', ')}`,
      parameters: keys.flatMap((key, index) => [
        consumer,
        ids[index],
        key ?? null,
        Buffer.from(`{"n":${index}}`),
      ]),
    }
  }

  read(
    how: { after?: bigint | undefined; without?: readonly string[]; messages?: number } = {},
  ): Promise<LocalRead> {
    const limits = { ...LIMITS, messages: how.messages ?? LIMITS.messages }
    return this.store.read(AT, limits, { after: how.after, without: how.without ?? [] })
  }

  async messages(): Promise<readonly LocalMessage[]> {
    return (await this.read()).messages
  }

  readDue(lease = this.lease): Promise<readonly LocalMessage[]> {
    return this.store.readDue(lease, AT, LIMITS)
  }

  settle(settlement: Partial<LocalSettlement>, lease = this.lease): Promise<readonly LocalRow[]> {
    return this.store.settle(lease, AT, { ...NOTHING, ...settlement })
  }

  /** Refuses the first of these messages, and lets the others wait behind it. */
  park(
    [head, ...behind]: readonly LocalMessage[],
    how: Partial<LocalRefusal> = {},
  ): Promise<readonly LocalRow[]> {
    return this.settle({ refused: [refusal(head!, how)], behind })
  }

  /** Opens the transaction of a handler of these messages. */
  async handle(
    messages: readonly LocalMessage[],
    { lease = this.lease, isolation }: { lease?: Lease; isolation?: IsolationLevel } = {},
  ): Promise<OpenHandler> {
    const opened = Promise.withResolvers<readonly LocalRow[]>()
    const end = Promise.withResolvers<'commit' | 'rollback'>()
    const rolledBack = new Error('The handler is rolled back.')
    const done = this.ports
      .transact(
        async (_tx, session) => {
          const locked = await this.store.lock(session, lease, AT, messages)
          opened.resolve(locked)
          if ((await end.promise) === 'rollback') throw rolledBack
          if (locked.length > 0) await this.store.remove(session, AT, locked)
        },
        { isolation },
      )
      .catch((error: unknown) => {
        opened.reject(error)
        if (error !== rolledBack) throw error
      })
    done.catch(() => undefined)
    const finish = (how: 'commit' | 'rollback') => (): Promise<void> => {
      end.resolve(how)
      return done
    }
    onTestFinished(() => finish('rollback')().catch(() => undefined))
    const locked = await opened.promise
    return {
      locked: locked.map((row) => messages.find((message) => message === row)!.id),
      commit: finish('commit'),
      rollback: finish('rollback'),
    }
  }

  /** Parked messages by place: id, whether it is due some time, whether it is dead, and the attempts. */
  async parked(): Promise<readonly (readonly [string, 'due' | 'waits' | 'dead', number])[]> {
    const id = this.#target.engine === 'postgres' ? 'id' : 'cast(id as char) as id'
    const rows = await this.#outbox.sql(
      `select ${id}, case when dead_at is not null then 'dead' when due_at is null then 'waits' else 'due' end as state, attempts
       from ${this.table('local_parked')} order by place`,
    )
    return rows.map((row) => [
      String(row['id']),
      row['state'] as 'due' | 'waits' | 'dead',
      Number(row['attempts']),
    ])
  }
}

export function refusal(row: LocalRow, how: Partial<LocalRefusal> = {}): LocalRefusal {
  return {
    row,
    attempts: 1,
    error: 'refused',
    errors: undefined,
    retryInMs: 0,
    suspect: false,
    unhandled: false,
    ...how,
  }
}

export function idsOf(messages: readonly LocalMessage[]): readonly string[] {
  return messages.map(({ id }) => id)
}

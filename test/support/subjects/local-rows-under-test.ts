import { randomUUID } from 'node:crypto'
import type {
  ConnectedPorts,
  Lease,
  LocalMessage,
  LocalRefusal,
  LocalSettlement,
  LocalShard,
  LocalStore,
  MessageToStore,
  Subscribers,
} from '@txbox/core/ports'
import { connectedPortsOf } from '@txbox/core/internal'
import type { OpenTransaction, Root, Target } from '../engines/target.ts'

export const LIMITS = { messages: 100, bytes: 1_000_000 }

/** The shard of the consumer under test. */
export const AT: LocalShard = { consumer: 'billing', shard: 3 }

/** The store of a local consumer on MySQL and MariaDB, without a consumer: one lease of one shard. */
export class LocalRowsUnderTest {
  readonly ports: ConnectedPorts
  readonly store: LocalStore
  readonly lease: Lease = { name: 'local/billing/3', owner: 'me', term: 7n, crashes: 0, inFlight: undefined }
  readonly #root: Root
  readonly #target: Target

  constructor(root: Root, target: Target, statementTimeoutMs = 10_000) {
    this.#root = root
    this.#target = target
    this.ports = connectedPortsOf('test', root.database)
    this.store = this.ports.local({ statementTimeoutMs })
  }

  async holdLease(): Promise<void> {
    await this.#target.sql(
      `insert into txbox_leases (name, owner, term, expires_at) values (?, ?, ?, utc_timestamp(6) + interval 1 hour)
       on duplicate key update owner = values(owner), term = values(term), expires_at = values(expires_at)`,
      [this.lease.name, this.lease.owner, Number(this.lease.term)],
    )
  }

  /** Stores one message for each of these keys, for the consumer under test. */
  async publish(...keys: readonly (string | undefined)[]): Promise<readonly string[]> {
    const messages = keys.map((key) => messageFor({ key }))
    const transaction = await this.#root.begin()
    await this.append(transaction, messages)
    await transaction.commit()
    return messages.map(({ id }) => id)
  }

  async append(
    transaction: OpenTransaction,
    messages: readonly MessageToStore[],
    subscribers: Partial<Subscribers> = {},
    lockKeys = false,
  ): Promise<void> {
    await this.ports.outbox.append(await this.ports.bind(transaction.tx), messages, {
      lockKeys,
      subscribers: {
        given: new Map([['order.placed', [AT.consumer]]]),
        registered: false,
        unrouted: 'refuse',
        ...subscribers,
      },
    })
  }

  async read(...without: readonly string[]): Promise<readonly LocalMessage[]> {
    return (await this.store.read(AT, LIMITS, { after: undefined, without })).messages
  }

  readDue(): Promise<readonly LocalMessage[]> {
    return this.store.readDue(this.lease, AT, LIMITS)
  }

  settle(settlement: Partial<LocalSettlement>): ReturnType<LocalStore['settle']> {
    return this.store.settle(this.lease, AT, { accepted: [], refused: [], behind: [], ...settlement })
  }

  /** Locks messages in a transaction that stays open. */
  async lockIn(transaction: OpenTransaction, rows: readonly LocalMessage[]): Promise<readonly string[]> {
    const session = await this.ports.bind(transaction.tx)
    const locked = await this.store.lock(session, this.lease, AT, rows)
    return locked.map((row) => (row as LocalMessage).id)
  }

  async removeIn(transaction: OpenTransaction, rows: readonly LocalMessage[]): Promise<void> {
    await this.store.remove(await this.ports.bind(transaction.tx), AT, rows)
  }

  /** The rows of `local_outbox`, or of `local_parked`, in their order. */
  async rowsOf(table: 'outbox' | 'parked'): Promise<readonly StoredLocalRow[]> {
    const [number, due] = table === 'outbox' ? ['seq', 'null'] : ['place', 'r.due_at is not null']
    const rows = await this.#target.sql(
      `select cast(r.consumer as char) as consumer, cast(r.id as char) as id, r.topic, r.\`key\`, ${due} as due
       from txbox_local_${table} as r order by r.${number}`,
    )
    return rows as unknown as readonly StoredLocalRow[]
  }
}

interface StoredLocalRow {
  readonly consumer: string
  readonly id: string
  readonly topic: string | null
  readonly key: string | null
  readonly due: number | null
}

export function messageFor(fields: Partial<MessageToStore> = {}): MessageToStore {
  return {
    id: randomUUID(),
    shard: AT.shard,
    topic: undefined,
    key: undefined,
    type: 'order.placed',
    contentType: 'application/json',
    payload: Buffer.from('{}'),
    headers: {},
    correlationId: undefined,
    ...fields,
  }
}

export function refusalOf(row: LocalMessage, fields: Partial<LocalRefusal> = {}): LocalRefusal {
  return {
    row,
    attempts: 1,
    error: 'refused',
    errors: undefined,
    retryInMs: 0,
    suspect: false,
    unhandled: false,
    ...fields,
  }
}

export function idsOf(messages: readonly { readonly id: string }[]): readonly string[] {
  return messages.map(({ id }) => id)
}

/*
 * MySQL and MariaDB have no sign of open writers, so each read begins at the start; they lock and delete by lists as JSON.
 * PostgreSQL reads on from a number that is certain, and takes arrays.
 */
import { TransactionAbortedError, type Session } from '@txbox/core'
import type {
  BacklogMessage,
  Lease,
  LocalMessage,
  LocalRead,
  LocalRow,
  LocalSettlement,
  LocalShard,
  LocalStore,
  LocalWork,
  ReadLimits,
} from '@txbox/core/ports'
import { inlineBytes, type Row } from '@txbox/sql/stores'
import { columns, placeOf } from '../connection/columns.ts'
import type { Tables } from '../connection/identifiers.ts'
import { json, type Value } from '../connection/literals.ts'
import { runBounded, type MysqlStatementRoot } from '../connection/run-alone.ts'
import { byEngine, type ServerTraits } from '../connection/server.ts'
import { execute, type MysqlSession } from '../connection/session.ts'
import { withoutSafeUpdates } from '../connection/time-limit-statements.ts'
import { optional, toMessages, toMessageRow } from '../relay/backlog-message.ts'
import { LeaseNotes } from '../relay/lease-notes.ts'
import { ParkedReads, fitting, rowNamedBy, type ParkedPlace } from '../relay/parked-reads.ts'
import { RelayServer } from '../relay/relay-server.ts'
import { RelaySettling, fence } from '../relay/relay-settling.ts'
import { relayStatements } from '../relay/relay-statements.ts'
import { rowOf } from '../relay/relay-verdicts.ts'
import { localParkedStatements, sharedParkedStatements } from './local-parked-statements.ts'
import { LocalSettlements } from './local-settlements.ts'
import { localStatements } from './local-statements.ts'
import { LocalSuspects } from './local-suspects.ts'
import { placeValues, type LocalSql } from './locked-rows.ts'

type Kind = LocalRow['in']

const KINDS: readonly Kind[] = ['waiting', 'parked']

/** The tables of local consumers on MySQL and MariaDB. {@link LocalStore} documents the methods. */
export class MysqlLocalStore implements LocalStore {
  readonly #source: MysqlStatementRoot
  readonly #sql: () => Promise<LocalSql>
  readonly #reads: ParkedReads
  readonly #settlements: LocalSettlements
  readonly #suspects: LocalSuspects
  readonly #notes: LeaseNotes
  readonly #server = new RelayServer()

  constructor(tables: Tables, source: MysqlStatementRoot) {
    const [statements, ofLeases] = [byEngine(localSql, tables), byEngine(relayStatements, tables)]
    const engine = async (): Promise<ServerTraits['engine']> => (await source.server()).engine
    const settling = new RelaySettling(source, async () => ofLeases[await engine()].holdOn, 'last')
    this.#source = source
    this.#sql = async () => statements[await engine()]
    const reading = sharedParkedStatements(tables)
    this.#reads = new ParkedReads(reading, (text, values) => this.#query(text, values))
    const tools = { source, settling, sql: this.#sql }
    this.#settlements = new LocalSettlements(tools)
    this.#suspects = new LocalSuspects(tools)
    this.#notes = new LeaseNotes(source, settling, async () => ofLeases[await engine()])
  }

  get generation(): number {
    return this.#server.generation
  }

  async work(shards: readonly LocalShard[]): Promise<readonly LocalWork[]> {
    if (shards.length === 0) return []
    const { work } = await this.#sql()
    const list = shards.map(({ consumer, shard }) => JSON.stringify([consumer, shard]))
    const rows = await this.#query(work, [this.#server.connections, this.#server.name, json(list)])
    const found: LocalWork[] = []
    for (const row of rows) {
      const n = columns.number(row, 'n')
      if (n > 0) {
        const [waiting, due] = [columns.has(row, 'waiting'), columns.has(row, 'due')]
        if (waiting || due) found.push({ ...shards[n - 1]!, waiting, due })
      } else if (columns.has(row, 'server')) {
        this.#server.connected(columns.number(row, 'connection'), columns.text(row, 'server'))
      }
    }
    return found
  }

  async read(
    at: LocalShard,
    limits: ReadLimits,
    { without }: { readonly after: bigint | undefined; readonly without: readonly string[] },
  ): Promise<LocalRead> {
    const { read, readWithout, readPayload } = await this.#sql()
    const place = placeValues(at)
    const values: Value[] = [inlineBytes(limits), ...place, ...place, ...place]
    if (without.length > 0) values.push(without.map((key) => Buffer.from(key)))
    const text = without.length > 0 ? readWithout : read
    const stored = (await this.#query(text, [...values, limits.messages])).map(toMessageRow)
    this.#server.read(stored)
    const messages = await toMessages(fitting(stored, limits), at.shard, async ({ seq, stamp }) => {
      const [row] = await this.#query(readPayload, [...place, seq, stamp])
      return row?.['payload']
    })
    return { messages: messages.map((message) => toLocal(message, 'waiting')), certain: undefined }
  }

  async readDue(lease: Lease, at: LocalShard, limits: ReadLimits): Promise<readonly LocalMessage[]> {
    const locked = new Set<string>()
    const messages = await this.#reads.due(
      parkedPlaceOf(at),
      limits,
      async (rows) => {
        const left = await this.#settlements.follow(lease, rows.map(rowNamedBy))
        for (const place of left) locked.add(String(place))
      },
      (row) => locked.has(placeOf(row)),
    )
    return messages.map((message) => toLocal(message, 'parked'))
  }

  async readSuspect(at: LocalShard, limits: ReadLimits): Promise<LocalMessage | undefined> {
    const suspect = await this.#reads.suspect(parkedPlaceOf(at), limits)
    return suspect && { ...toLocal(suspect, 'parked'), isSuspect: true }
  }

  async lock(
    session: Session,
    lease: Lease,
    at: LocalShard,
    rows: readonly LocalRow[],
  ): Promise<readonly LocalRow[]> {
    const locked = new Set<LocalRow>()
    for (const kind of KINDS) {
      const ofKind = rows.filter((row) => row.in === kind)
      if (ofKind.length === 0) continue
      const { text, values } = await this.#onRows(kind, at, ofKind, ['lockOne', 'lock'])
      const found = await execute(session, 'locking messages', text, [...values, ...fence(lease)])
      const numbers = new Set(found.rows.map((row) => columns.text(row, 'seq')))
      for (const row of ofKind) if (numbers.has(String(row.seq))) locked.add(row)
    }
    return rows.filter((row) => locked.has(row))
  }

  async remove(session: Session, at: LocalShard, rows: readonly LocalRow[]): Promise<void> {
    const doing = 'removing handled messages'
    const { engine } = (session as MysqlSession).server
    let removed = 0
    for (const kind of KINDS) {
      const ofKind = rows.filter((row) => row.in === kind)
      if (ofKind.length === 0) continue
      const { text, values } = await this.#onRows(kind, at, ofKind, ['removeOne', 'remove'])
      removed += (await execute(session, doing, withoutSafeUpdates(text, engine), values)).affected
    }
    if (removed === rows.length) return
    throw new TransactionAbortedError(
      `${rows.length} messages were handled, but only ${removed} could be removed in the transaction of their handler: the handler ended ` +
        'the transaction, or something else deletes messages. Roll back.',
    )
  }

  settle(lease: Lease, at: LocalShard, settlement: LocalSettlement): Promise<readonly LocalRow[]> {
    return this.#settlements.settle(lease, at, settlement)
  }

  release(lease: Lease, at: LocalShard, keys: readonly string[]): Promise<void> {
    return this.#settlements.release(lease, at, keys)
  }

  healKeys(lease: Lease, at: LocalShard): Promise<number> {
    return this.#settlements.healKeys(lease, at)
  }

  suspect(lease: Lease, at: LocalShard, rows: readonly LocalRow[]): Promise<readonly LocalRow[]> {
    return this.#suspects.suspect(lease, at, rows)
  }

  isKeyUnlocked(at: LocalShard, key: string): Promise<boolean> {
    return this.#settlements.isKeyUnlocked(at, key)
  }

  handled(consumer: string, types: readonly string[]): Promise<void> {
    return this.#settlements.handled(consumer, types)
  }

  note(lease: Lease, inFlight: string | undefined): Promise<boolean> {
    return this.#notes.note(lease, inFlight)
  }

  async countDue(consumer: string, limit: number): Promise<number> {
    const { countDue } = await this.#sql()
    const [row] = await this.#query(countDue, [consumer, limit, consumer, limit])
    return Math.min(limit, columns.number(row, 'due'))
  }

  survived(lease: Lease): Promise<void> {
    return this.#notes.survived(lease)
  }

  /** Returns a statement on one row, or on a list, with its values. */
  async #onRows(
    kind: Kind,
    at: LocalShard,
    rows: readonly LocalRow[],
    [one, several]: readonly ['lockOne', 'lock'] | readonly ['removeOne', 'remove'],
  ): Promise<{ readonly text: string; readonly values: readonly Value[] }> {
    const place = placeValues(at)
    const { parked, ...waiting } = await this.#sql()
    const sql = kind === 'waiting' ? waiting : { ...parked, remove: parked.removeListed }
    const [row] = rows as readonly [LocalRow, ...LocalRow[]]
    if (rows.length > 1) return { text: sql[several], values: [json(rows.map(rowOf)), ...place] }
    const named = [row.seq, row.stamp]
    return { text: sql[one], values: kind === 'waiting' ? [...place, ...named] : [...named, ...place] }
  }

  async #query(text: string, values: readonly Value[]): Promise<readonly Row[]> {
    return (await runBounded(this.#source, 'reading messages of local consumers', text, values)).rows
  }
}

function localSql(tables: Tables, engine: ServerTraits['engine']): LocalSql {
  return { ...localStatements(tables, engine), parked: localParkedStatements(tables, engine) }
}

function parkedPlaceOf(at: LocalShard): ParkedPlace {
  return { shard: at.shard, values: placeValues(at) }
}

function toLocal(message: BacklogMessage, kind: Kind): LocalMessage {
  return { ...message, topic: optional(message.topic), in: kind, isSuspect: false }
}

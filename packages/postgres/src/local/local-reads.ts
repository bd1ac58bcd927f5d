/*
 * PostgreSQL knows up to which number a read is complete, and reads waiting and parked messages as columns. MySQL and MariaDB
 * return a message as one binary value.
 */
import type {
  BacklogMessage,
  LocalMessage,
  LocalRead,
  LocalShard,
  LocalWork,
  ReadLimits,
} from '@txbox/core/ports'
import { inlineBytes, withoutLater, type Row } from '@txbox/sql/stores'
import type { StatementRoot } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { textArray, textStamps } from '../connection/integer-arrays.ts'
import { runAtReadCommitted } from '../connection/run-alone.ts'
import { stampOf, toMessages } from '../relay/backlog-message.ts'
import { RememberedServer, type Server } from '../relay/remembered-numbers.ts'
import type { localParkedStatements } from './local-parked-statements.ts'
import { LocalScans, type Writers } from './local-scans.ts'
import type { localStatements } from './local-statements.ts'

const READING = 'reading local messages'

interface Statements {
  readonly waiting: ReturnType<typeof localStatements>
  readonly parked: ReturnType<typeof localParkedStatements>
}

/** Reads of the local consumers' tables, which lock nothing. `LocalStore` documents the methods. */
export class LocalReads {
  readonly scans = new LocalScans(() => this.#openWriters())
  readonly #server = new RememberedServer(
    () => this.#askServer(),
    () => this.scans.forget(),
  )
  readonly #sql: Statements
  readonly #source: StatementRoot

  constructor(sql: Statements, source: StatementRoot) {
    this.#sql = sql
    this.#source = source
  }

  get generation(): number {
    return this.#server.generation
  }

  async work(shards: readonly LocalShard[]): Promise<readonly LocalWork[]> {
    if (shards.length === 0) return []
    const rows = await this.#server.remembering(({ identity, last }) =>
      this.query(this.#sql.waiting.work, [
        shards.map(({ consumer }) => consumer),
        shards.map(({ shard }) => shard),
        textArray(shards.map((at) => this.scans.from(at))),
        ...[identity, String(last)],
      ]),
    )
    return rows.map((row) => {
      const { consumer, shard } = shards[columns.number(row, 'n') - 1]!
      return { consumer, shard, waiting: columns.flag(row, 'waiting'), due: columns.flag(row, 'due') }
    })
  }

  read(
    at: LocalShard,
    limits: ReadLimits,
    { after, without }: { readonly after: bigint | undefined; readonly without: readonly string[] },
  ): Promise<LocalRead> {
    const { consumer, shard } = at
    return this.#server.remembering(async ({ identity, last }) => {
      const scan = await this.scans.begin(at, after)
      const rows = await this.query(this.#sql.waiting.read, [
        ...[shard, limits.messages, inlineBytes(limits), String(scan.from), identity, String(last)],
        ...[consumer, without],
      ])
      const messages = await toMessages(rows, shard, limits.bytes, (seqs, stamps) =>
        this.query(this.#sql.waiting.readPayloads, [shard, textArray(seqs), textStamps(stamps), consumer]),
      )
      const certain = this.scans.end(scan, {
        first: numberOf(rows[0]),
        last: messages.at(-1)?.seq ?? numberOf(rows.at(-1)),
        isWhole: after === undefined && without.length === 0,
        isCut: rows.length === limits.messages || messages.length < rows.length,
      })
      return { messages: messages.map((message) => localMessage(message, 'waiting')), certain }
    })
  }

  async readSuspect({ consumer, shard }: LocalShard, limits: ReadLimits): Promise<LocalMessage | undefined> {
    const rows = await this.query(this.#sql.parked.readSuspect, [shard, limits.bytes, consumer])
    const [suspect] = await this.#toParked(rows, shard, limits)
    return suspect === undefined ? undefined : { ...suspect, isSuspect: true }
  }

  /** Reads parked messages that come first in their keys, and the messages behind those in `onward`. */
  async readHeads(
    at: LocalShard,
    limits: ReadLimits,
    { alone, onward }: { readonly alone: readonly Row[]; readonly onward: readonly Row[] },
  ): Promise<readonly LocalMessage[]> {
    const rows: Row[] = []
    if (alone.length > 0) {
      rows.push(...(await this.query(this.#sql.parked.readAlone, [...placesOf(alone), inlineBytes(limits)])))
    }
    if (onward.length > 0) rows.push(...(await this.#readOnward(at, onward, limits)))
    return this.#toParked(rows, at.shard, limits)
  }

  /** Reads the next messages of each key, up to the first message that must wait longer. */
  async #readOnward(
    { consumer, shard }: LocalShard,
    heads: readonly Row[],
    limits: ReadLimits,
  ): Promise<readonly Row[]> {
    const [places, stamps] = placesOf(heads)
    const most = Math.ceil(limits.messages / heads.length)
    const keys = heads.map((row) => columns.text(row, 'order_key'))
    const values = [shard, keys, places, most, inlineBytes(limits), stamps, consumer]
    return withoutLater(
      await this.query(this.#sql.parked.readOnward, values),
      (row) => columns.optionalText(row, 'key'),
      (row) => columns.has(row, 'later'),
    )
  }

  async query(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return (await runAtReadCommitted(this.#source, READING, text, values)).rows
  }

  async #toParked(rows: readonly Row[], shard: number, limits: ReadLimits): Promise<readonly LocalMessage[]> {
    const messages = await toMessages(rows, shard, limits.bytes, (places, stamps) =>
      this.query(this.#sql.parked.readPayloads, [textArray(places), textStamps(stamps)]),
    )
    return messages.map((message) => localMessage(message, 'parked'))
  }

  async #askServer(): Promise<Server> {
    const [row] = await this.query(this.#sql.waiting.server, [])
    return serverOf(row)
  }

  async #openWriters(): Promise<Writers> {
    const rows = await this.query(this.#sql.waiting.openWriters, [])
    const server = serverOf(rows[0])
    this.#server.answered(server)
    return {
      last: server.last,
      open: rows
        .filter((row) => columns.has(row, 'writer'))
        .map((row) => ({ writer: columns.text(row, 'writer'), prepared: columns.flag(row, 'prepared') })),
    }
  }
}

export function placesOf(rows: readonly Row[]): [places: string, stamps: string] {
  return [textArray(rows.map((row) => columns.text(row, 'place'))), textStamps(rows.map(stampOf))]
}

function localMessage(message: BacklogMessage, where: 'waiting' | 'parked'): LocalMessage {
  return { ...message, topic: message.topic ?? undefined, in: where, isSuspect: false }
}

function numberOf(row: Row | undefined): bigint | undefined {
  return row === undefined ? undefined : columns.bigint(row, 'seq')
}

function serverOf(row: Row | undefined): Server {
  if (row === undefined) throw new Error('The server gave no answer.')
  return { identity: columns.text(row, 'server'), last: BigInt(columns.optionalText(row, 'last') ?? 0) }
}

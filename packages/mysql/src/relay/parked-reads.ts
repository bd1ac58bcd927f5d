/* MySQL and MariaDB need a branch for each key, and take lists as JSON; PostgreSQL takes arrays. */
import type { BacklogMessage, ReadLimits } from '@txbox/core/ports'
import { dueMessages, inlineBytes, toStamp, withinBytes, withoutLater, type Row } from '@txbox/sql/stores'
import { toMessages, toMessageRow, type MessageRow } from './backlog-message.ts'
import { columns } from '../connection/columns.ts'
import { bytesOf, fill, json, type Value } from '../connection/literals.ts'
import type { parkedStatementsOn } from './parked-statements.ts'
import { rowOf } from './relay-verdicts.ts'

/** The maximum number of branches of a statement, one for each released key. */
export const MAX_BRANCHES = 100

type Query = (text: string, values: readonly Value[]) => Promise<readonly Row[]>

/** One shard, as statements identify it. */
export interface ParkedPlace {
  readonly shard: number
  /** The values by which a statement finds the rows of the shard. */
  readonly values: readonly Value[]
}

/** Reads the parked messages of the outbox, or those of local consumers. */
export class ParkedReads {
  readonly #sql: ReturnType<typeof parkedStatementsOn>
  readonly #query: Query

  constructor(sql: ReturnType<typeof parkedStatementsOn>, query: Query) {
    this.#sql = sql
    this.#query = query
  }

  /** @param follow puts messages back behind their predecessors. */
  async due(
    at: ParkedPlace,
    limits: ReadLimits,
    follow: (rows: readonly Row[]) => Promise<unknown>,
    isIgnored: (row: Row) => boolean = () => false,
  ): Promise<readonly BacklogMessage[]> {
    const place = at.values
    const { alone, onward } = await dueMessages(
      columns,
      async () => {
        const due = await this.#query(this.#sql.due, [...place, ...place, ...place, limits.messages])
        return due.filter((row) => !isIgnored(row))
      },
      follow,
    )
    const stored: MessageRow[] = []
    if (alone.length > 0) stored.push(...(await this.#readAlone(alone, limits)))
    const branches = onward.slice(0, MAX_BRANCHES)
    if (branches.length > 0) stored.push(...(await this.#readOnward(at, branches, limits)))
    return this.#toParked(stored, at.shard, limits)
  }

  async suspect(at: ParkedPlace, limits: ReadLimits): Promise<BacklogMessage | undefined> {
    const found = await this.#query(this.#sql.findSuspect, [...at.values, ...at.values])
    if (found.length === 0) return undefined
    const [suspect] = await this.#toParked(await this.#readAlone(found, limits), at.shard, limits)
    return suspect
  }

  async #readAlone(rows: readonly Row[], limits: ReadLimits): Promise<readonly MessageRow[]> {
    const values = [inlineBytes(limits), json(rows.map(rowNamedBy).map(rowOf))]
    return (await this.#query(this.#sql.readAlone, values)).map(toMessageRow)
  }

  /** Reads the next messages of each key, up to the first message that must wait longer. */
  async #readOnward(
    at: ParkedPlace,
    heads: readonly Row[],
    limits: ReadLimits,
  ): Promise<readonly MessageRow[]> {
    const most = Math.ceil(limits.messages / heads.length)
    const branches = heads.map((row) => {
      const { seq, stamp } = rowNamedBy(row)
      const key = bytesOf(row['order_key'])
      return fill(this.#sql.readOnward, [inlineBytes(limits), ...at.values, key, seq, seq, stamp, most])
    })
    const stored = (await this.#query(this.#sql.readAllOnward(branches), [])).map(toMessageRow)
    return withoutLater(
      stored,
      ({ key }) => key,
      ({ row }) => columns.has(row, 'later'),
    )
  }

  #toParked(
    stored: readonly MessageRow[],
    shard: number,
    limits: ReadLimits,
  ): Promise<readonly BacklogMessage[]> {
    return toMessages(fitting(stored, limits), shard, async ({ seq, stamp }) => {
      const [row] = await this.#query(this.#sql.readPayload, [seq, stamp])
      return row?.['payload']
    })
  }
}

/** Returns the first messages whose payloads fit into the limit, and at least one. */
export function fitting(stored: readonly MessageRow[], limits: ReadLimits): readonly MessageRow[] {
  return withinBytes(stored, limits.bytes, ({ payloadBytes }) => payloadBytes)
}

/** Returns the place and the stamp of a row. */
export function rowNamedBy(row: Row): { readonly seq: bigint; readonly stamp: number } {
  return { seq: columns.bigint(row, 'place'), stamp: toStamp(columns.number(row, 'stamp')) }
}

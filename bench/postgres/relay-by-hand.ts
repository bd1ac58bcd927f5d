import type { Client } from 'pg'

interface HandMessage {
  readonly seq: string
}

/** A row of a table of whole messages. */
export interface HandRow extends HandMessage {
  readonly created_at: Date
  readonly id: string
  readonly topic: string
  readonly key: string | null
  readonly type: string | null
  readonly content_type: string
  readonly headers: string
  readonly payload: Buffer
}

/** The client of a broker with which a hand-written loop publishes. */
export interface HandClient {
  publish(rows: readonly HandRow[]): Promise<void>
  close(): Promise<void>
}

/** The fields of a message that a hand-written loop stores and reads. */
export interface HandTable {
  readonly columns: readonly string[]
  /** Reads from a table of txbox. */
  readonly values: readonly string[]
  create(table: string): string
}

/** The message that txbox passes to a publisher: type, headers, any bytes, and the time at which it was stored. */
export const WHOLE_MESSAGE: HandTable = {
  columns: ['created_at', 'id', 'topic', 'key', 'type', 'content_type', 'headers', 'payload'],
  values: ['created_at', 'id', 'topic', 'key', 'type', 'content_type', 'headers', 'payload'],
  create: (table) => `
    create table ${table} (
      seq bigserial primary key,
      created_at timestamptz not null default now(),
      id text not null,
      topic text not null,
      key text,
      type text,
      content_type text not null,
      headers text not null,
      payload bytea not null
    )`,
}

/** The minimum: text only, and no headers. A jsonb column would cost a parse on both sides. */
export const BARE_TEXT: HandTable = {
  columns: ['id', 'topic', 'key', 'payload'],
  values: ['id::uuid', 'topic', 'key', "convert_from(payload, 'UTF8')"],
  create: (table) => `
    create table ${table} (
      seq bigserial primary key,
      id uuid not null,
      topic text not null,
      key text,
      payload text not null,
      created_at timestamptz not null default now()
    )`,
}

/** A simple relay written by hand: one process, one connection, one loop. */
export async function relayByHand(
  client: Client,
  table: string,
  { columns }: HandTable,
  publish: (messages: readonly HandMessage[]) => Promise<void>,
): Promise<number> {
  let published = 0
  for (;;) {
    const { rows } = await client.query<HandMessage>(
      `select seq, ${columns.join(', ')} from ${table} order by seq limit 1000`,
    )
    if (rows.length === 0) return published
    await publish(rows)
    await client.query(`delete from ${table} where seq = any($1)`, [rows.map((row) => row.seq)])
    published += rows.length
  }
}

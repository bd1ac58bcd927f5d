import type { Client } from 'pg'

interface HandMessage {
  readonly seq: string
}

/** What a loop by hand stores and reads of a message. */
export interface HandTable {
  readonly columns: readonly string[]
  /** From a table of txbox. */
  readonly values: readonly string[]
  create(table: string): string
}

/** The message that txbox hands to a publisher: its type, its headers, any bytes, when it was stored. */
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

/** The least that one can do with: text only, and no headers. As jsonb it would cost a parse on both sides. */
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

/** The relay that a sensible engineer writes in an afternoon: one process, one connection, one loop. */
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

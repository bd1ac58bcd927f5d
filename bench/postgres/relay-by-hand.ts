import type { Client } from 'pg'

export interface HandMessage {
  readonly seq: string
  readonly id: string
  readonly topic: string
  readonly key: string
  readonly payload: string
}

/** The relay that a sensible engineer writes in an afternoon: one process, one connection, one loop. */
export async function relayByHand(
  client: Client,
  table: string,
  publish: (messages: readonly HandMessage[]) => Promise<void>,
): Promise<number> {
  let published = 0
  for (;;) {
    const { rows } = await client.query<HandMessage>(
      `select seq, id, topic, key, payload from ${table} order by seq limit 1000`,
    )
    if (rows.length === 0) return published
    await publish(rows)
    await client.query(`delete from ${table} where seq = any($1)`, [rows.map((row) => row.seq)])
    published += rows.length
  }
}

/** And his table. The payload is text: as jsonb it would cost a parse in the server and another in the driver. */
export function tableByHand(table: string): string {
  return `
    create table ${table} (
      seq bigserial primary key,
      id uuid not null,
      topic text not null,
      key text,
      payload text not null,
      created_at timestamptz not null default now()
    )`
}

import type { Connection, RowDataPacket } from 'mysql2/promise'

interface HandMessage extends RowDataPacket {
  readonly seq: number
}

/** The fields of a message that a loop by hand stores and reads. */
export interface HandTable {
  readonly columns: string
  /** Reads from a table of txbox. */
  readonly values: string
  create(table: string): string
}

/** The message that txbox passes to a publisher: type, headers, any bytes, and the time at which it was stored. */
export const WHOLE_MESSAGE: HandTable = {
  columns: 'created_at, id, topic, `key`, type, content_type, headers, payload',
  values: 'created_at, id, topic, `key`, type, content_type, headers, payload',
  create: (table) => `
    create table ${table} (
      seq bigint unsigned not null auto_increment primary key,
      created_at datetime(6) not null default current_timestamp(6),
      id varchar(255) not null,
      topic varchar(255) not null,
      \`key\` varchar(255),
      type varchar(255),
      content_type varchar(255) not null,
      headers mediumtext not null,
      payload mediumblob not null
    )`,
}

/** The minimum: text only, and no headers. A json column would cost a parse on both sides. */
export const BARE_TEXT: HandTable = {
  columns: 'id, topic, `key`, payload',
  values: 'id, topic, `key`, convert(payload using utf8mb4)',
  create: (table) => `
    create table ${table} (
      seq bigint unsigned not null auto_increment primary key,
      id char(36) not null,
      topic varchar(255) not null,
      \`key\` varchar(255),
      payload mediumtext not null,
      created_at datetime(6) not null default current_timestamp(6)
    )`,
}

/** A simple relay written by hand: one process, one connection, one loop. */
export async function relayByHand(
  connection: Connection,
  table: string,
  { columns }: HandTable,
  publish: (messages: readonly HandMessage[]) => Promise<void>,
): Promise<number> {
  let published = 0
  for (;;) {
    const [rows] = await connection.query<HandMessage[]>(
      `select seq, ${columns} from ${table} order by seq limit 1000`,
    )
    if (rows.length === 0) return published
    await publish(rows)
    await connection.query(`delete from ${table} where seq in (?)`, [rows.map((row) => row.seq)])
    published += rows.length
  }
}

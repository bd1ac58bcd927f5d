import type { Connection, RowDataPacket } from 'mysql2/promise'

interface HandMessage extends RowDataPacket {
  readonly seq: number
  readonly id: string
  readonly topic: string
  readonly key: string
  readonly payload: string
}

/** The relay that a sensible engineer writes in an afternoon: one process, one connection, one loop. */
export async function relayByHand(
  connection: Connection,
  table: string,
  publish: (messages: readonly HandMessage[]) => Promise<void>,
): Promise<number> {
  let published = 0
  for (;;) {
    const [rows] = await connection.query<HandMessage[]>(
      `select seq, id, topic, \`key\`, payload from ${table} order by seq limit 1000`,
    )
    if (rows.length === 0) return published
    await publish(rows)
    await connection.query(`delete from ${table} where seq in (?)`, [rows.map((row) => row.seq)])
    published += rows.length
  }
}

/** And his table. The payload is text: as json it would cost a parse in the server and another in the driver. */
export function tableByHand(table: string): string {
  return `
    create table ${table} (
      seq bigint unsigned not null auto_increment primary key,
      id char(36) not null,
      topic varchar(255) not null,
      \`key\` varchar(255),
      payload mediumtext not null,
      created_at datetime(6) not null default current_timestamp(6)
    )`
}

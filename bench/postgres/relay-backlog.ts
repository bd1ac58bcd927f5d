import { createOutbox } from '@txbox/outbox'
import { migrate, postgres } from '@txbox/postgres'
import type { Pool } from 'pg'
import { anyOrder } from '../order-message.ts'

const SCHEMA = 'backlog'

/** The messages that each drain copies first, as `outbox.publish` has stored them. */
export const BACKLOG = `${SCHEMA}.outbox`

/** Makes the messages. */
export async function makeBacklog(pool: Pool, count: number): Promise<void> {
  await pool.query(`drop schema if exists ${SCHEMA} cascade`)
  await migrate(pool, { schema: SCHEMA })
  const outbox = createOutbox({ database: postgres({ schema: SCHEMA }) })
  const client = await pool.connect()
  try {
    for (let made = 0; made < count; made += 1000) {
      await client.query('BEGIN')
      await outbox.publish(client, Array.from({ length: Math.min(1000, count - made) }, anyOrder))
      await client.query('COMMIT')
    }
  } finally {
    client.release()
  }
  await pool.query(`vacuum analyze ${BACKLOG}`)
}

import { Client } from 'pg'
import { expect } from 'vitest'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import { txbox } from './run-txbox.ts'

/**
 * Stores one message, and lets the command check the broker and publish the message.
 *
 * @param shop the URL of a database with the tables of txbox.
 * @param how `publisher` is the URL of the broker, `away` the URL of one that cannot be reached. `environment` has what the URL names,
 *   or what the client of the broker reads.
 * @returns the id of the message.
 */
export async function relayToBroker(
  shop: string,
  topic: string,
  how: { publisher: string; away: string; environment?: Record<string, string> },
): Promise<string> {
  const id = 'order 1'
  const client = new Client(shop)
  await client.connect()
  await client.query('BEGIN')
  await createOutbox({ database: postgres() }).publish(client, {
    ...{ id, topic, type: 'order.paid', key: 'k', payload: { n: 1 } },
  })
  await client.query('COMMIT')
  await client.end()
  const env = { DATABASE_URL: shop, ...how.environment }
  const checked = await txbox(['relay', '--publisher', how.publisher, '--check'], env)
  expect([checked.code, checked.stderr]).toEqual([0, expect.stringContaining('are ready')])
  const drained = await txbox(['relay', '--publisher', how.publisher, '--drain'], env)
  expect(drained.code, drained.stderr).toBe(0)
  const away = await txbox(['relay', '--publisher', how.away, '--check'], env)
  expect([away.code, away.stderr]).toEqual([1, expect.stringMatching(/^txbox: /)])
  expect(away.stderr).not.toContain('secret')
  return id
}

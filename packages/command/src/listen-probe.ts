import { randomBytes } from 'node:crypto'
import type { Finding } from '@txbox/core/ports'
import { reasonOf, within } from '@txbox/core/internal'
import type { Client } from 'pg'

const TIMEOUT_MS = 3000

/**
 * Checks whether notifications arrive: listens on one connection, and notifies on another. A pooler in between may lose
 * notifications.
 */
export async function probeListen(ClientOfPg: typeof Client, url: string): Promise<Finding> {
  const check = 'listen'
  const channel = `txbox_doctor_${randomBytes(8).toString('hex')}`
  const [listener, notifier] = [0, 1].map(() => {
    const client = new ClientOfPg({
      connectionString: url,
      connectionTimeoutMillis: TIMEOUT_MS,
      query_timeout: TIMEOUT_MS,
    })
    // The calls that fail throw the same errors.
    client.on('error', () => undefined)
    return client
  }) as [Client, Client]
  const broken = (found: string): Finding => ({
    check,
    verdict: 'warning',
    found: `${found}: a pooler in between may break LISTEN`,
    advice:
      "Relays and consumers find messages by polling. To let them be notified, pass the server's own address as the option 'listen' of postgres().",
  })
  try {
    await Promise.all([listener.connect(), notifier.connect()])
    const arrived = new Promise<boolean>((resolve) => listener.once('notification', () => resolve(true)))
    const notified = within(arrived, TIMEOUT_MS, () => false, { ref: false })
    await listener.query(`listen ${channel}`)
    await notifier.query(`notify ${channel}`)
    return (await notified)
      ? { check, verdict: 'ok', found: 'notifications arrive' }
      : broken('a notification did not arrive')
  } catch (error) {
    return broken(reasonOf(error))
  } finally {
    await Promise.allSettled([listener.end(), notifier.end()])
  }
}

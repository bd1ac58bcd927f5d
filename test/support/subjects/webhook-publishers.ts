import net from 'node:net'
import { onTestFinished } from 'vitest'
import { webhookPublisher, type Publisher, type WebhookPublisherOptions } from '@txbox/webhook'

export const TIMEOUT_MS = 500

/** A publisher that may call addresses of this machine. */
export function webhookPublisherOf(options: WebhookPublisherOptions = {}): Publisher {
  const publisher = webhookPublisher({ allow: () => true, timeoutMs: TIMEOUT_MS, ...options })
  onTestFinished(() => publisher.close?.())
  return publisher
}

/** An address at which nothing listens. */
export async function nowhere(): Promise<string> {
  const server = net.createServer()
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as net.AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return `http://127.0.0.1:${port}/`
}

import { type OutboxMessage, type Publisher } from '@txbox/relay'
import { UsageError } from './failure.ts'
import type { Installation } from './installation.ts'
import { loadDriver } from './load-driver.ts'
import { endIfReaderIsGone } from './output-reader.ts'
import { payloadOf } from './payload-of.ts'
import { toJson } from './terminal.ts'

const EXPECTED = 'amqp://…, amqps://… or stdout:'

/** Creates the publisher of `--publisher`. Never shows the URL, which may contain a password. */
export async function createPublisher(
  installation: Installation,
  url: string,
  exchange: string,
): Promise<Publisher> {
  const protocol = /^[a-z][a-z0-9+.-]*:/i.exec(url)?.[0].toLowerCase()
  switch (protocol) {
    case 'amqp:':
    case 'amqps:': {
      const rabbitmq = await loadDriver(installation, '@txbox/rabbitmq')
      return rabbitmq.rabbitmqPublisher({ url, exchange })
    }
    case 'stdout:':
      return stdoutPublisher()
    case undefined:
      throw new UsageError(`--publisher is not a URL; expected ${EXPECTED}`)
    default:
      throw new UsageError(`--publisher ${protocol}… is not supported; expected ${EXPECTED}`)
  }
}

/**
 * Writes each message as one line of JSON. A message counts as accepted when the operating system has accepted its
 * line.
 */
function stdoutPublisher(): Publisher {
  return {
    ordering: 'per-key',
    async publish(messages) {
      const lines = messages.map((message) => `${toJson(toLine(message))}\n`).join('')
      await new Promise<void>((resolve, reject) => {
        process.stdout.write(lines, (error) => {
          if (!error) return resolve()
          endIfReaderIsGone(error)
          reject(error)
        })
      })
      return messages.map(() => ({ status: 'accepted' as const }))
    },
  }
}

function toLine(message: OutboxMessage): object {
  const { id, topic, type, key, contentType, headers, correlationId, createdAt, payload } = message
  const content = payloadOf(contentType, payload)
  return { id, topic, type, key, contentType, headers, correlationId, createdAt, ...content }
}

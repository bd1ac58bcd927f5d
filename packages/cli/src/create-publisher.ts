import { rabbitmqPublisher } from '@txbox/rabbitmq'
import { type OutboxMessage, type Publisher } from '@txbox/relay'
import { UsageError } from './failure.ts'

/** What `--publisher` names. The URL itself is never shown: it holds a password. */
export function createPublisher(url: string, exchange: string): Publisher {
  const protocol = /^[a-z]+:/.exec(url)?.[0] ?? ''
  switch (protocol) {
    case 'amqp:':
    case 'amqps:':
      return rabbitmqPublisher({ url, exchange })
    case 'stdout:':
      return stdoutPublisher()
    default:
      throw new UsageError(`--publisher ${protocol}… is unknown; expected amqp://…, amqps://… or stdout:`)
  }
}

/** One JSON object a line; a message counts as accepted when the line has been handed to the operating system. */
function stdoutPublisher(): Publisher {
  return {
    ordering: 'per-key',
    async publish(messages) {
      const lines = messages.map((message) => `${JSON.stringify(toLine(message))}\n`).join('')
      await new Promise<void>((resolve, reject) => {
        process.stdout.write(lines, (error) => (error ? reject(error) : resolve()))
      })
      return messages.map(() => ({ status: 'accepted' as const }))
    },
  }
}

function toLine(message: OutboxMessage): object {
  const { id, topic, type, key, contentType, headers, correlationId, createdAt } = message
  return { id, topic, type, key, contentType, headers, correlationId, createdAt, ...payloadOf(message) }
}

/** JSON as it is, other text as text, and what is neither in base64. */
function payloadOf(message: OutboxMessage): object {
  try {
    if (/[/+]json\s*(;|$)/i.test(message.contentType)) return { payload: message.json() }
    if (message.contentType.startsWith('text/')) return { payload: message.text() }
  } catch {
    // It is not what its content type says: shown as the bytes that it is.
  }
  return { payloadBase64: Buffer.from(message.payload).toString('base64') }
}

import type { OutboxMessage, Publisher } from '@txbox/relay'
import { endIfReaderIsGone } from '../output-reader.ts'
import { payloadOf } from '../payload-of.ts'
import { toJson } from '../terminal.ts'

/**
 * Writes each message as one line of JSON. A message counts as accepted when the operating system has accepted its
 * line.
 */
export function stdoutPublisher(): Publisher {
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

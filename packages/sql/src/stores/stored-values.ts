import type { MessageToStore } from '@txbox/core/ports'

/** Returns the values of the columns that all tables of messages have in common, the shard first and the payload last. */
export function storedValues(message: MessageToStore): readonly (string | number | null | Buffer)[] {
  const { payload } = message
  return [
    message.shard,
    message.id,
    message.topic ?? null,
    message.key ?? null,
    message.type ?? null,
    message.contentType,
    JSON.stringify(message.headers),
    message.correlationId ?? null,
    message.traceContext ?? null,
    Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength),
  ]
}

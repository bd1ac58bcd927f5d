import { propertyOf } from '@txbox/core/internal'
import { ByteCollector } from './byte-collector.ts'

type Chunk = Uint8Array | string

/** A stream that can be given up while its next chunk is waited for. */
interface Source {
  next(): Promise<{ readonly done?: boolean | undefined; readonly value?: Chunk | undefined }>
  giveUp(): void
}

/**
 * Reads a stream of Node or of the web up to one byte beyond the limit, and then gives it up.
 *
 * @param signal gives up the stream, too, such as one that hangs: the promise rejects then.
 */
export async function collectBody(
  stream: ReadableStream<Chunk> | AsyncIterable<Chunk>,
  maxBytes: number,
  signal?: AbortSignal,
): Promise<Buffer<ArrayBuffer>> {
  const collector = new ByteCollector(maxBytes)
  const source = 'getReader' in stream ? webSource(stream) : nodeSource(stream)
  const giveUp = (): void => source.giveUp()
  signal?.addEventListener('abort', giveUp, { once: true })
  try {
    for (;;) {
      signal?.throwIfAborted()
      const { done, value } = await source.next()
      if (done === true || value === undefined) break
      if (collector.add(value)) continue
      source.giveUp()
      break
    }
    signal?.throwIfAborted()
    return collector.bytes
  } catch (error) {
    source.giveUp()
    throw error
  } finally {
    signal?.removeEventListener('abort', giveUp)
  }
}

function webSource(stream: ReadableStream<Chunk>): Source {
  const reader = stream.getReader()
  return {
    next: () => reader.read(),
    // Half of a cloned body waits for the other half, so nobody waits for this one.
    giveUp: () => void reader.cancel().catch(() => undefined),
  }
}

function nodeSource(stream: AsyncIterable<Chunk>): Source {
  const iterator = stream[Symbol.asyncIterator]()
  return { next: () => iterator.next(), giveUp: () => discard(stream) }
}

/** Frees what a stream holds that nobody reads. Does nothing for all other values. */
export function discard(stream: unknown): void {
  const destroy = propertyOf(stream, 'destroy')
  if (typeof destroy === 'function') Reflect.apply(destroy, stream, [])
  else if (stream instanceof ReadableStream && !stream.locked) stream.cancel().catch(() => undefined)
}

import { Readable } from 'node:stream'
import type { ByteCollector } from './byte-collector.ts'

/**
 * Returns a stream with the bytes of a body, which are also collected. `pipeline` and a `Transform` do the same, and take as much
 * time as the rest of the plug-in.
 */
export function recorded(payload: Readable, body: ByteCollector): Readable {
  let hasEnded = false
  const copy = new Readable({
    read: () => void payload.resume(),
    destroy(error, done) {
      if (!hasEnded) payload.destroy()
      done(error)
    },
  })
  payload.on('data', (chunk: Buffer) => {
    body.add(chunk)
    if (!copy.push(chunk)) payload.pause()
  })
  payload.on('end', () => {
    hasEnded = true
    copy.push(null)
  })
  // The parser gets an error of the request from the copy.
  payload.on('error', (error) => copy.destroy(error))
  payload.on('close', () => {
    if (!hasEnded) copy.destroy(new Error('The request ended before its body did.'))
  })
  // A hook that decompresses counts the bytes that were received, by which Fastify compares the length.
  Object.defineProperty(copy, 'receivedEncodedLength', {
    get: () => Reflect.get(payload, 'receivedEncodedLength') as unknown,
  })
  return copy
}

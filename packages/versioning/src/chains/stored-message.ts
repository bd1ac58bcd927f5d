import type { WaitingChange } from '@txbox/core/ports'
import type { VersionedMessage } from './version-buffer.ts'
import { asKindOf, type Version } from '../version.ts'

const SAMPLES = new Map<string, Version>([
  ['number', 0],
  ['bigint', 0n],
  ['string', ''],
])

/**
 * Restores a message from its stored form; the payload has been converted to JSON and back.
 *
 * @returns `undefined` if the row was altered by hand and contains no valid message.
 */
export function readMessage(
  key: string,
  change: WaitingChange,
): VersionedMessage<unknown, Version> | undefined {
  if (change.to <= change.from) return undefined
  const sample = SAMPLES.get(change.kind) ?? ''
  try {
    return {
      key,
      from: asKindOf('version buffer', sample, change.from),
      to: asKindOf('version buffer', sample, change.to),
      payload: JSON.parse(change.payload) as unknown,
    }
  } catch {
    return undefined
  }
}

/** Like `readMessage`, for a report: a row that contains no valid message is shown as text. */
export function messageOf(key: string, change: WaitingChange): VersionedMessage<unknown, Version> {
  const { from, to, payload } = change
  return readMessage(key, change) ?? { key, from: String(from), to: String(to), payload }
}

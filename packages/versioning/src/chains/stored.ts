import { InvalidMessageError, InvalidOptionError, LIMITS } from '@txbox/core'
import type { WaitingChange } from '@txbox/core/ports'
import { OptionChecker, nameOf } from '@txbox/core/internal'
import { checkedStep } from '../rules/version-step.ts'
import type { VersionedMessage } from './version-buffer.ts'
import type { Version } from '../version.ts'

/** The greatest version that the column can hold. */
const MAX_STORED_VERSION = 2n ** 63n - 1n

/** @throws {InvalidMessageError} when the message is not valid. */
export function stored(message: VersionedMessage<unknown, Version>): { key: string; change: WaitingChange } {
  if (typeof message !== 'object' || message === null) throw invalid('a message', message)
  try {
    const [from, to] = checkedStep('process', message)
    const key = checkedKey('process', message.key)
    const change = { from: storable(from), to: storable(to), kind: typeof message.from }
    return { key, change: { ...change, payload: toJson(message.payload) } }
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error
    throw new InvalidMessageError(`${error.message} Nothing was written.`, { cause: error })
  }
}

function toJson(payload: unknown): string {
  let json: string | undefined
  try {
    json = JSON.stringify(payload)
  } catch (error) {
    throw new InvalidMessageError('process: the payload cannot be written as JSON. Nothing was written.', {
      cause: error,
    })
  }
  if (json === undefined) throw invalid('a payload that JSON can express', payload)
  const bytes = Buffer.byteLength(json)
  if (bytes > LIMITS.payloadBytes) {
    throw new InvalidMessageError(
      `process: the payload has ${bytes} bytes as JSON; at most ${LIMITS.payloadBytes} are allowed. Nothing was written.`,
    )
  }
  return json
}

export function checkedKey(where: string, key: unknown): string {
  return new OptionChecker(where, { key }).text('key', { max: LIMITS.orderingKeyCharacters })
}

export function storable(version: bigint): bigint {
  if (version <= MAX_STORED_VERSION) return version
  throw new InvalidOptionError(
    `version buffer: version ${version} exceeds 2^63 − 1, the greatest version that the buffer can store.`,
  )
}

function invalid(expected: string, value: unknown): InvalidMessageError {
  return new InvalidMessageError(`process: expected ${expected}, not ${nameOf(value)}. Nothing was written.`)
}

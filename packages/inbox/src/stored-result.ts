import { InvalidMessageError, LIMITS } from '@txbox/core'
import { isLostInJson, nameOf, oneLine, type InboxKey } from '@txbox/core/internal'

/**
 * Returns the JSON text of a handler's result.
 *
 * @returns `undefined` for a result that has no JSON text, such as `undefined`.
 * @throws {InvalidMessageError} for a result that cannot be written as JSON (a bigint, a cycle, a Map), or is longer than
 *   `LIMITS.resultBytes`.
 */
export function resultText(result: unknown, key: InboxKey): string | undefined {
  const failed = `The handler's result for the message with the key '${oneLine(key.text)}' cannot be stored`
  let text: string | undefined
  let isLost: boolean
  try {
    text = JSON.stringify(result) as string | undefined
    isLost = isLostInJson(result, text)
  } catch (cause) {
    throw new InvalidMessageError(`${failed}: it has no form in JSON. Return a JSON value. Roll back.`, {
      cause,
    })
  }
  if (isLost) {
    throw new InvalidMessageError(
      `${failed}: JSON cannot express ${nameOf(result)}. Return a JSON value. Roll back.`,
    )
  }
  const bytes = text === undefined ? 0 : Buffer.byteLength(text)
  if (bytes > LIMITS.resultBytes) {
    throw new InvalidMessageError(
      `${failed}: it has ${bytes} bytes as JSON; at most ${LIMITS.resultBytes} are allowed. Return a reference to it, ` +
        'such as an id. Roll back.',
    )
  }
  return text
}

/** @throws {InvalidMessageError} when the stored text is not JSON, because the row was altered. */
export function parseResult(text: string, key: InboxKey): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch (cause) {
    throw new InvalidMessageError(
      `The stored result of the message with the key '${oneLine(key.text)}' is not JSON, so its row in the inbox was ` +
        'altered. Correct the row, or remove it with forget(). Nothing was written.',
      { cause },
    )
  }
}

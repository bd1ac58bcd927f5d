const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The errors that were thrown because a payload cannot be decoded. */
const undecodable = new WeakSet<object>()

/** Whether the error was thrown by reading a message's payload: every other attempt would fail as well. */
export function isUndecodable(error: unknown): boolean {
  return typeof error === 'object' && error !== null && undecodable.has(error)
}

/** A message whose payload can be read as text or as JSON. */
export abstract class ReadablePayload {
  abstract readonly payload: Uint8Array

  text(): string {
    return decoding(() => utf8.decode(this.payload))
  }

  json<P = unknown>(): P {
    const text = this.text()
    return decoding(() => JSON.parse(text) as P)
  }
}

function decoding<R>(decode: () => R): R {
  try {
    return decode()
  } catch (error) {
    undecodable.add(error as object)
    throw error
  }
}

import type { HandClient, HandRow } from '../postgres/relay-by-hand.ts'

/** A received message, as a loop by hand makes it: the same fields that a source of txbox reads. */
export interface ReadMessage {
  readonly id: string
  readonly key: string | undefined
  readonly type: string | undefined
  readonly contentType: string | undefined
  readonly time: Date | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly payload: unknown
}

/** The names under which a broker carries the fields of a message. */
export interface WireNames {
  readonly id: string
  readonly key: string
  readonly type: string
  readonly contentType: string
  readonly time: string
}

export const TXBOX_NAMES: WireNames = {
  id: 'txbox-id',
  key: 'txbox-key',
  type: 'txbox-type',
  contentType: 'content-type',
  time: 'txbox-time',
}

/** Reads a message whose fields and headers stand together, and whose payload is JSON. */
export function readMessage(
  fields: Iterable<readonly [name: string, value: string]>,
  payload: Buffer | string,
  names: WireNames = TXBOX_NAMES,
): ReadMessage {
  const found: { -readonly [N in keyof WireNames]?: string } = {}
  const headers: Record<string, string> = {}
  for (const [name, value] of fields) {
    if (name === names.id) found.id = value
    else if (name === names.key) found.key = value
    else if (name === names.type) found.type = value
    else if (name === names.contentType) found.contentType = value
    else if (name === names.time) found.time = value
    else headers[name] = value
  }
  return {
    id: found.id ?? '',
    key: found.key,
    type: found.type,
    contentType: found.contentType,
    time: found.time === undefined ? undefined : new Date(found.time),
    headers,
    payload: JSON.parse(payload.toString()),
  }
}

/** The handler of all loops by hand, which does nothing. */
const handler: (message: ReadMessage) => Promise<void> = async () => undefined

/** Calls the handler for messages at the same time, except for those of one key, which take turns. */
export class HandlersByHand {
  readonly #last = new Map<string, Promise<void>>()

  /** Resolves when the message is handled. */
  async handle(message: ReadMessage): Promise<void> {
    const { key } = message
    if (key === undefined) return handler(message)
    const before = this.#last.get(key)
    const running = before === undefined ? handler(message) : before.then(() => handler(message))
    this.#last.set(key, running)
    await running
    if (this.#last.get(key) === running) this.#last.delete(key)
  }
}

/** The client with the order that a publisher keeps: of each key, a message is sent when the one before is confirmed. */
export function inOrderOfKeys(client: HandClient): HandClient {
  return {
    async publish(rows) {
      for (let left = rows; left.length > 0;) {
        const [wave, later] = firstOfEachKey(left)
        await client.publish(wave)
        left = later
      }
    },
    close: () => client.close(),
  }
}

function firstOfEachKey(rows: readonly HandRow[]): readonly [readonly HandRow[], readonly HandRow[]] {
  const keys = new Set<string>()
  const [first, later]: [HandRow[], HandRow[]] = [[], []]
  for (const row of rows) {
    if (row.key !== null && keys.has(row.key)) later.push(row)
    else first.push(row)
    if (row.key !== null) keys.add(row.key)
  }
  return [first, later]
}

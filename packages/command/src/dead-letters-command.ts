import type { DeadLetter } from '@txbox/core'
import type { KeptError, ParkedMessage, StoredPayload } from '@txbox/core/ports'
import { OptionChecker, readableNumber } from '@txbox/core/internal'
import {
  everything,
  queuesWithDeadLetters,
  selectionOf,
  usingDeadLetters,
  type DeadLettersOptions,
  type Tools,
} from './dead-letters-tools.ts'
import { idsWithError, listByError, reasonOf } from './dead-letter-errors.ts'
import { listed, shortened, table } from './layout.ts'
import { payloadOf, writable } from './payload-of.ts'
import { write, writeJson } from './terminal.ts'
import { visible, visibleLines } from './visible.ts'

const ERROR_CHARACTERS = 200

/** The maximum number of parked messages that `list` lists, which is also that of dead letters. */
const MAX_LISTED = 1000

/** The maximum number of messages with one id that `show` shows. */
const MAX_SAME_ID = 100

type Message = DeadLetter | ParkedMessage

interface ListOptions extends DeadLettersOptions {
  readonly limit: number
  readonly after?: string
  readonly by?: 'error'
}

interface ShowOptions extends DeadLettersOptions {
  readonly payload?: boolean
}

export async function listDeadLetters(options: ListOptions): Promise<void> {
  await usingDeadLetters(options, async (tools) => {
    if (options.by === 'error') return listByError(tools, options)
    const { found, more } = await page(tools, options)
    if (options.json === true) {
      for (const message of found) writeJson(message)
      return
    }
    const queues = await queuesText(tools, options)
    const none =
      options.parked === true
        ? 'No messages are parked.'
        : `No dead letters${queues === undefined ? '' : ' of the outbox'}.`
    const text = found.length > 0 ? tableOf(found) : none
    write([text, more, queues].filter((part) => part !== undefined).join('\n\n'))
  })
}

/** Names the queues that have dead letters, if the list is of all dead letters of the outbox. */
async function queuesText({ inspection }: Tools, options: ListOptions): Promise<string | undefined> {
  const selects = Object.keys(selectionOf(options)).length > 0 || options.after !== undefined
  if (selects || options.parked === true) return undefined
  const queues = await queuesWithDeadLetters(inspection)
  if (queues.length === 0) return undefined
  const rows = queues.map(({ name, dead }) => [
    visible(name),
    readableNumber(dead.count) + (dead.atLeast ? '+' : ''),
  ])
  return `${table(['queue', 'dead letters'], rows)}\n\nPass --queue <name> to list those of a queue.`
}

async function page(
  tools: Tools,
  options: ListOptions,
): Promise<{ readonly found: readonly Message[]; readonly more: string | undefined }> {
  const { letters, store } = tools
  const { limit, after } = options
  if (options.parked === true) {
    new OptionChecker('dead-letters', options).integer('limit', { min: 1, max: MAX_LISTED, default: 100 })
    const { messages, next } = await store.listParked({ ...everything, ...selectionOf(options) }, limit)
    const more = next && 'There may be more. Pass a larger --limit, or filter with --topic, --type or --key.'
    return { found: messages, more }
  }
  if (options.error !== undefined) return pageWithError(tools, { ...options, error: options.error })
  const found = await letters.list({ ...selectionOf(options), limit, after })
  const more =
    found.length < limit ? undefined : `There may be more. Pass --after ${visible(found.at(-1)!.id)}`
  return { found, more }
}

/** A page of the dead letters whose error contains a text, in the order of their ids. */
async function pageWithError(
  tools: Tools,
  options: ListOptions & { readonly error: string },
): Promise<{ readonly found: readonly Message[]; readonly more: string | undefined }> {
  const { limit, after } = options
  new OptionChecker('dead-letters', options).integer('limit', { min: 1, max: MAX_LISTED, default: 100 })
  const { ids, bound } = await idsWithError(tools, options)
  const position = after === undefined ? {} : { after: { id: after } }
  const { messages, next } = await tools.store.list(
    { ...everything, ...selectionOf(options), ids, ...position },
    limit,
  )
  const more = next && `There may be more. Pass --after ${visible(next.id)}`
  const notes = [more, bound].filter((note) => note !== undefined)
  return { found: messages, more: notes.length === 0 ? undefined : notes.join('\n') }
}

/** `txbox dead-letters show <id>`: shows all fields of the messages with this id. */
export async function showDeadLetter(id: string, options: ShowOptions): Promise<void> {
  await usingDeadLetters(options, async ({ store }) => {
    const { consumer } = options
    const filter = { ...everything, ids: [id], consumer }
    const { messages } =
      options.parked === true
        ? await store.listParked(filter, MAX_SAME_ID)
        : await store.list(filter, MAX_SAME_ID)
    if (messages.length === 0) {
      const what = options.parked === true ? 'parked message' : 'dead letter'
      throw new Error(`There is no ${what} with the id '${visible(id)}'.`)
    }
    const payloads =
      options.payload === true ? await store.payloads(id, options.parked === true, MAX_SAME_ID, consumer) : []
    const errors = await store.errors(id, options.parked === true, MAX_SAME_ID, consumer)
    for (const [n, message] of messages.entries()) {
      const earlier = errors[n] ?? []
      if (options.json === true) {
        writeJson({ ...message, errors: earlier, ...(payloads[n] && contentOf(payloads[n])) })
      } else {
        write((n > 0 ? '\n' : '') + detailsOf(message, earlier, payloads[n]))
      }
    }
  })
}

function contentOf({ contentType, headers, payload }: StoredPayload): object {
  return { ...headersOf(headers), ...payloadOf(contentType, payload) }
}

/** Returns the headers as JSON; or as text, if they are not valid because the row was edited by hand. */
function headersOf(headers: string): Record<string, unknown> {
  try {
    return { headers: writable(JSON.parse(headers)) }
  } catch {
    return { headersText: headers }
  }
}

function detailsOf(
  message: Message,
  errors: readonly KeptError[],
  content: StoredPayload | undefined,
): string {
  const { error, ...rest } = message
  const fields = Object.entries({ ...rest, error }).flatMap(
    ([name, value]): (readonly [string, string])[] => {
      if (value === undefined) return []
      if (typeof value === 'string') return [[name, visible(value)]]
      if (typeof value === 'number') return [[name, readableNumber(value)]]
      if (value instanceof Date) return [[name, value.toISOString()]]
      return [[name, `${value.at.toISOString()} by ${visible(value.by)}`]]
    },
  )
  // The newest attempt comes first; the field `error` contains its error as well.
  const attempts = errors
    .toReversed()
    .map(({ at, attempt, error: text }): readonly [string, string] => [
      `attempt ${attempt}`,
      `${at.toISOString()} ${visible(shortened(text, ERROR_CHARACTERS))}`,
    ])
  const pairs = [...fields, ...attempts]
  if (content === undefined) return listed(pairs)
  const { contentType, headers, payload } = content
  return `${listed([...pairs, ['headers', visible(headers)]])}\n\n${textOf(contentType, payload)}`
}

/** Returns the payload as text if it is text, and otherwise in Base64. */
function textOf(contentType: string, payload: Uint8Array): string {
  if (payload.length === 0) return '(the payload is empty)'
  return 'payloadBase64' in payloadOf(contentType, payload)
    ? Buffer.from(payload).toString('base64')
    : visibleLines(Buffer.from(payload).toString())
}

/** The reason comes first: it decides what to do, and the id then names the message. */
export function tableOf(messages: readonly Message[]): string {
  const local = messages.some(({ consumer }) => consumer !== undefined)
  const rows = messages.map((message) => [
    reasonOf(message.error),
    visible(message.id),
    ...(local ? [visible(message.consumer ?? '')] : []),
    visible(message.topic ?? ''),
    visible(message.key ?? ''),
    'deadAt' in message ? message.deadAt.toISOString() : (message.dueAt?.toISOString() ?? 'behind its key'),
    readableNumber(message.attempts),
  ])
  const parked = messages.some((message) => !('deadAt' in message))
  return table(
    ['error', 'id', ...(local ? ['consumer'] : []), 'topic', 'key', parked ? 'due' : 'died', 'attempts'],
    rows,
    { cut: 0 },
  )
}

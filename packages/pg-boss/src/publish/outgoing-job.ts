import { PermanentError, type OutboxMessage } from '@txbox/core'
import { nameOf, oneLine, payloadForm } from '@txbox/core/internal'
import { exactJson } from './exact-json.ts'
import { jobIdOf } from './job-id.ts'

/** The names that pg-boss gives to queues. */
const QUEUE = /^[\w./-]{1,255}$/
const LONGEST_QUEUE = 255

/** PostgreSQL stores no NUL in text, and no lone surrogate. */
const NUL = '\u0000'

const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/** A job as `PgBoss.insert` takes it. Each resend of a message has the same id and data. */
export interface OutgoingJob {
  readonly queue: string
  readonly id: string
  readonly bytes: number
  readonly job: object
}

interface JobHow {
  readonly queue: string
  readonly data: 'envelope' | 'payload'
  readonly options: object
  readonly maxMessageBytes: number
}

/** @throws {PermanentError} when pg-boss cannot carry the message unchanged: each attempt would fail. */
export function outgoingJob(message: OutboxMessage, how: JobHow): OutgoingJob {
  const { id, payload } = message
  if (payload.byteLength > how.maxMessageBytes) {
    throw refusal(
      id,
      `its payload has ${payload.byteLength} bytes; 'maxMessageBytes' is ${how.maxMessageBytes}. Store the data elsewhere and publish ` +
        'a reference to it, or raise that option',
    )
  }
  checkQueue(id, how.queue)
  checkTexts(message)
  const data = how.data === 'envelope' ? envelopeOf(message) : jsonPayload(message)
  const jobId = jobIdOf(id)
  return {
    queue: how.queue,
    id: jobId,
    bytes: payload.byteLength,
    job: { ...how.options, id: jobId, data },
  }
}

function checkQueue(id: string, queue: string): void {
  if (QUEUE.test(queue)) return
  const why =
    queue.length > LONGEST_QUEUE
      ? `has ${queue.length} characters; pg-boss allows ${LONGEST_QUEUE}`
      : 'is no name of a queue of pg-boss, which may have letters, digits, dots, underscores, hyphens and slashes'
  throw refusal(
    id,
    `its queue '${oneLine(queue, 100)}' ${why}. Publish it to another topic, or map the topic by the option 'queue'`,
  )
}

/** The payload as JSON, if it is JSON, and otherwise its bytes. */
function envelopeOf(message: OutboxMessage): object {
  const { id, type, key, correlationId, contentType, contentEncoding, createdAt, headers, payload } = message
  const json = parsed(message)
  return {
    id,
    ...(type !== undefined && { type }),
    ...(key !== undefined && { key }),
    ...(correlationId !== undefined && { correlationId }),
    contentType,
    ...(contentEncoding !== undefined && { contentEncoding }),
    time: createdAt.toISOString(),
    headers,
    ...(json === undefined ? { payloadBase64: base64(payload) } : { payload: json.value }),
  }
}

function jsonPayload(message: OutboxMessage): unknown {
  const json = parsed(message)
  if (json !== undefined) return json.value
  throw refusal(
    message.id,
    `its payload is not JSON, and a job holds nothing else with "data: 'payload'". Use "data: 'envelope'", or publish JSON`,
  )
}

/** @returns nothing for a payload that is not JSON, whatever its content type says. */
function parsed({
  contentType,
  contentEncoding,
  payload,
}: OutboxMessage): { readonly value: unknown } | undefined {
  if (contentType === '' || contentEncoding !== undefined || payloadForm(contentType) !== 'json')
    return undefined
  try {
    return { value: exactJson(UTF_8.decode(payload)) }
  } catch {
    return undefined
  }
}

function base64(payload: Uint8Array): string {
  return Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength).toString('base64')
}

function checkTexts(message: OutboxMessage): void {
  const { id, type, key, correlationId, contentType, contentEncoding, createdAt } = message
  if (Number.isNaN(createdAt.getTime())) throw refusal(id, 'its time of creation is no valid date')
  const fields = { id, type, key, 'correlation id': correlationId, 'content type': contentType }
  for (const [name, text] of Object.entries({ ...fields, 'content encoding': contentEncoding })) {
    if (text !== undefined) checkText(id, `its ${name}`, text)
  }
  for (const name of Object.keys(message.headers)) {
    const value: unknown = message.headers[name]
    const shown = oneLine(name, 100)
    checkText(id, `the name of its header '${shown}'`, name)
    if (typeof value !== 'string')
      throw refusal(id, `its header '${shown}' must be text, not ${nameOf(value)}`)
    checkText(id, `its header '${shown}'`, value)
  }
}

function checkText(id: string, what: string, text: string): void {
  if (!text.isWellFormed()) throw refusal(id, `${what} contains a lone surrogate. Remove the surrogate`)
  if (text.includes(NUL))
    throw refusal(id, `${what} contains a NUL, which PostgreSQL cannot store. Remove the NUL`)
}

function refusal(id: string, what: string): PermanentError {
  return new PermanentError(`Message ${oneLine(id)} cannot be published to pg-boss: ${what}.`)
}

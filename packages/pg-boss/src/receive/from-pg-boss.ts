import { InvalidMessageError, type InboxMessage } from '@txbox/core'
import { decodePayload, nameOf, oneLine, payloadForm, propertyOf } from '@txbox/core/internal'

/** A job as a worker of pg-boss receives it. */
export interface PgBossJob {
  readonly id: string
  readonly data: unknown
  /** The id of the first job of a chain of dead letter queues, with the metadata of a job. */
  readonly sourceRootId?: string | null | undefined
  readonly createdOn?: Date | undefined
}

/** The members of an envelope that are always there, each with its kind. */
const REQUIRED = { id: 'string', contentType: 'string', time: 'string', headers: 'object' } as const
const OPTIONAL = ['type', 'key', 'correlationId', 'contentEncoding'] as const
const PAYLOADS = ['payload', 'payloadBase64'] as const
const MEMBERS: ReadonlySet<string> = new Set([...Object.keys(REQUIRED), ...OPTIONAL, ...PAYLOADS])

interface Envelope {
  readonly id: string
  readonly type?: string
  readonly correlationId?: string
  readonly contentType: string
  readonly contentEncoding?: string
  readonly time: string
  readonly headers: Readonly<Record<string, string>>
  readonly payload?: unknown
  readonly payloadBase64?: string
}

/**
 * Converts a job to a message for the inbox.
 *
 * - A job of `pgBossPublisher` with `data: 'envelope'`: all fields of the message. A payload that was JSON is its value; a text is
 *   decoded; anything else is bytes.
 * - Any other job: `id` is that of the job, or of the first job if it went through dead letter queues; `payload` is the job's data.
 *
 * A job is taken for an envelope if its data has the members of an envelope and no others.
 *
 * @throws {InvalidMessageError} for a value that is no job, for a payload that is not what its content type says, and for JSON or text
 *   that is compressed. The same job would fail again.
 */
export function fromPgBoss<P = unknown>(job: PgBossJob): InboxMessage<P> {
  const id = propertyOf(job, 'id')
  if (typeof id !== 'string' || id === '') {
    throw new InvalidMessageError(`fromPgBoss: expected a job of pg-boss, with an id, not ${nameOf(job)}.`)
  }
  const { data, sourceRootId, createdOn } = job
  if (isEnvelope(data)) return opened<P>(data)
  return {
    id: sourceRootId ?? id,
    headers: {},
    ...(createdOn instanceof Date && { time: createdOn }),
    payload: data as P,
  }
}

function opened<P>(envelope: Envelope): InboxMessage<P> {
  const { id, type, correlationId, time, headers } = envelope
  return {
    id,
    headers,
    ...(type === undefined ? {} : { type }),
    ...(correlationId === undefined ? {} : { correlationId }),
    time: new Date(time),
    payload: payloadOf(envelope) as P,
  }
}

function payloadOf({ id, contentType, contentEncoding, payload, payloadBase64 }: Envelope): unknown {
  if (payloadBase64 === undefined) return payload
  const bytes = new Uint8Array(Buffer.from(payloadBase64, 'base64'))
  if (payloadForm(contentType) === 'bytes') return bytes
  if (contentEncoding !== undefined && contentEncoding !== 'identity') {
    throw new InvalidMessageError(
      `Message ${oneLine(id)} has the content encoding '${oneLine(contentEncoding)}'. Decode 'payloadBase64' of its job, and pass on a ` +
        'job with the decoded bytes and without the encoding.',
    )
  }
  return decodePayload({ id, contentType, payload: bytes }, 'any')
}

function isEnvelope(data: unknown): data is Envelope {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return false
  const members = data as Readonly<Record<string, unknown>>
  const payloads = PAYLOADS.filter((name) => Object.hasOwn(members, name))
  return (
    Object.keys(members).every((name) => MEMBERS.has(name)) &&
    Object.entries(REQUIRED).every(([name, kind]) => typeof members[name] === kind) &&
    OPTIONAL.every((name) => ['string', 'undefined'].includes(typeof members[name])) &&
    members['headers'] !== null &&
    Object.values(members['headers'] as object).every((value) => typeof value === 'string') &&
    !Number.isNaN(Date.parse(members['time'] as string)) &&
    payloads.length === 1 &&
    (payloads[0] === 'payload' || typeof members['payloadBase64'] === 'string')
  )
}

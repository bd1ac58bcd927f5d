import { InvalidMessageError } from '@txbox/core'
import { decodePayload, jsonOf, oneLine, payloadForm } from '@txbox/core/internal'
import { headerOf, type ReadRequest } from '../schemes/webhook-request.ts'

const FORM = /^application\/x-www-form-urlencoded\s*(;|$)/i
/** The beginning of the forms in which GitHub and Slack send JSON. No JSON begins so. */
const PAYLOAD_FIELD = 'payload='

/**
 * The body as its content type says: JSON as its value, also where no type is given; text as a string; a form, in which GitHub and
 * Slack can send JSON, as the JSON of its field `payload`, if that is its first field; anything else as the bytes.
 *
 * The content type is not signed. A body of JSON with a text such as `&payload=…` from a stranger must not become that text, so a form
 * is recognized by the body as well. For the same reason JSON is read as UTF-8, whatever charset the content type names (RFC 8259).
 *
 * @param knownId the id of the message, if it is known, for the error.
 * @throws {InvalidMessageError} when the body is not what its content type says, or is compressed. The error does not quote the body.
 */
export function webhookPayload(knownId: string | undefined, request: ReadRequest): unknown {
  const id = knownId ?? 'without an id'
  const contentType = headerOf(request, 'content-type') ?? ''
  const { body } = request
  const encoding = headerOf(request, 'content-encoding') ?? 'identity'
  if (FORM.test(contentType)) {
    const form = Buffer.from(body).toString()
    const payload = form.startsWith(PAYLOAD_FIELD) ? new URLSearchParams(form).get('payload') : null
    if (payload !== null) return jsonOf({ id, contentType: '', payload: Buffer.from(payload) })
  }
  const kind = payloadForm(contentType)
  if (kind === 'bytes') {
    return new Uint8Array(body.buffer, body.byteOffset, body.byteLength)
  }
  if (encoding !== 'identity') {
    throw new InvalidMessageError(
      `Message ${oneLine(id)} has the content encoding '${oneLine(encoding)}'. A webhook that is compressed cannot be read.`,
    )
  }
  const message = { id, contentType, payload: body }
  return kind === 'json' ? jsonOf(message) : decodePayload(message, 'any')
}

import { InvalidMessageError } from '@txbox/core'
import { decodePayload, oneLine, payloadForm } from '@txbox/core/internal'
import { headerOf, type ReadRequest } from '../schemes/webhook-request.ts'

const FORM = /^application\/x-www-form-urlencoded\s*(;|$)/i

/**
 * The body as its content type says: JSON as its value, also where no type is given; text as a string; a form, in which GitHub and
 * Slack can send JSON, as the JSON of its field `payload`, if it has one; anything else as the bytes.
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
    const payload = new URLSearchParams(Buffer.from(body).toString()).get('payload')
    if (payload !== null) return decodePayload({ id, contentType: '', payload: Buffer.from(payload) }, 'any')
  }
  if (payloadForm(contentType) === 'bytes') {
    return new Uint8Array(body.buffer, body.byteOffset, body.byteLength)
  }
  if (encoding !== 'identity') {
    throw new InvalidMessageError(
      `Message ${oneLine(id)} has the content encoding '${oneLine(encoding)}'. A webhook that is compressed cannot be read.`,
    )
  }
  return decodePayload({ id, contentType, payload: body }, 'any')
}

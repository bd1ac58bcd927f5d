import { ReceiptExpiredError } from '@txbox/core'
import type { QueueReceipt } from '@txbox/core/ports'
import { nameOf, oneLine } from '@txbox/core/internal'

/** Distinguishes receipts of this form from those of later versions. */
const FORM = 1
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const PLACE = /^[1-9]\d{0,18}$/
const LAST_PLACE = 2n ** 63n - 1n
/** The longest receipt: a name of 80 characters takes at most 480 characters as JSON. */
const MAX_CHARACTERS = 1024

/** Encodes a receipt as text that only this module can decode. */
export function receiptText(queue: string, { place, receipt, ordered }: Omit<QueueReceipt, 'topic'>): string {
  const fields = [FORM, queue, String(place), receipt, ordered]
  return Buffer.from(JSON.stringify(fields)).toString('base64url')
}

/**
 * Reads the receipt that a caller passed to a method of a queue. A receipt may come from another process, so every
 * field is checked.
 *
 * @throws {ReceiptExpiredError} when the value is not a receipt of this queue.
 */
export function readReceipt(where: string, queue: string, received: unknown): QueueReceipt {
  const text: unknown =
    typeof received === 'object' && received !== null ? Reflect.get(received, 'receipt') : undefined
  if (typeof text !== 'string') {
    const given =
      typeof received === 'object' && received !== null ? 'an object without one' : nameOf(received)
    throw refused(where, `expected an object with a receipt, such as a received message, not ${given}`)
  }
  const fields = text.length <= MAX_CHARACTERS ? parsed(text) : []
  const [form, name, place, receipt, ordered] = fields
  if (
    fields.length !== 5 ||
    form !== FORM ||
    typeof name !== 'string' ||
    typeof place !== 'string' ||
    !PLACE.test(place) ||
    BigInt(place) > LAST_PLACE ||
    typeof receipt !== 'string' ||
    !UUID.test(receipt) ||
    typeof ordered !== 'boolean'
  ) {
    throw refused(where, 'the text is not a receipt of a queue, or was changed')
  }
  if (name !== queue) {
    throw refused(where, `the receipt is of the queue '${oneLine(name, 80)}', not of '${oneLine(queue)}'`)
  }
  return { topic: queue, place: BigInt(place), receipt, ordered }
}

export function expired(where: string, queue: string): ReceiptExpiredError {
  return new ReceiptExpiredError(
    `${where}: the receipt is not valid anymore: the visibility timeout is over, or the message was handled, given back or ` +
      `received again (queue '${oneLine(queue)}'). Nothing was changed. Roll back the work, because another receiver may have ` +
      'the message.',
  )
}

function refused(where: string, why: string): ReceiptExpiredError {
  return new ReceiptExpiredError(`${where}: ${why}. Nothing was changed.`)
}

/** @returns the fields; an empty array if the text is not exactly what `receiptText` writes. */
function parsed(text: string): readonly unknown[] {
  const json = Buffer.from(text, 'base64url')
  // Several base64 texts decode to the same bytes; only the canonical one is accepted.
  if (json.toString('base64url') !== text) return []
  try {
    const fields: unknown = JSON.parse(json.toString())
    return Array.isArray(fields) && JSON.stringify(fields) === json.toString() ? fields : []
  } catch {
    return []
  }
}

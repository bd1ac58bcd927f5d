import { CAUSATION_HEADER } from './causes-of-messages.ts'

/** The headers that txbox itself adds to those of a message, and that a handler may therefore publish again. */
const AMONG_HEADERS: ReadonlySet<string> = new Set([
  CAUSATION_HEADER,
  // Those of a dead letter.
  'txbox-error',
  'txbox-deliveries',
  'txbox-source',
  'txbox-left-out',
  'txbox-original-id',
  'txbox-cc',
])

/**
 * Whether no sender may give a message this header, because receivers would take it for a field of the message. Some transports do not
 * distinguish headers by case.
 */
export function isReservedHeader(name: string): boolean {
  return /^txbox-/i.test(name) && !AMONG_HEADERS.has(name)
}

import { randomUUID } from 'node:crypto'

/** A name that no other test uses. */
export function uniqueName(text = 'stream'): string {
  return `${text}-${randomUUID().slice(0, 13)}`
}

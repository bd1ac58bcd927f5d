import { randomFillSync } from 'node:crypto'

const pool = Buffer.alloc(16 * 256)
let used = pool.length
let lastMs = 0
let counter = 0

/**
 * A UUIDv7 (RFC 9562, section 5.7): 48 bits of Unix time in milliseconds, 12 bits of a counter (section 6.2, method 1),
 * then random bits. The ids of one process sort in the order of their creation. New time-ordered ids are neighbors in a
 * B-tree; new random ids are not.
 */
export function uuidV7(now: number = Date.now()): string {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  const bytes = pool.subarray(used, (used += 16))
  if (now > lastMs) {
    lastMs = now
    // Half of the counter's range is left for the ids of the same millisecond.
    counter = bytes.readUInt16BE(6) & 0x07ff
  } else if (++counter > 0x0fff) {
    lastMs++
    counter = 0
  }
  bytes.writeUIntBE(lastMs, 0, 6)
  bytes.writeUInt16BE(0x7000 | counter, 6)
  bytes[8] = 0x80 | (bytes[8]! & 0x3f)
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

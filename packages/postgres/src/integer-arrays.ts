/* Only PostgreSQL takes arrays. */
/** The oids of the element types: `select oid from pg_type`. */
const INT8 = 20
const TID = 27
const TIMESTAMPTZ = 1184

/** PostgreSQL counts microseconds from the start of the year 2000. */
export const EPOCH_US = Date.UTC(2000, 0, 1) * 1000

/** Returns the text of an array. The driver would otherwise build the text number by number. */
export function textArray(numbers: readonly (bigint | string)[]): string {
  return `{${numbers.join(',')}}`
}

/** Returns addresses of rows as the text of a tid[]. */
export function textAddresses(addresses: readonly number[]): string {
  return `{${addresses.map((address) => `"(${Math.floor(address / 0x1_0000)},${address % 0x1_0000})"`).join(',')}}`
}

/** Returns microseconds since 1970 as the text of a timestamptz[]. ISO 8601 has the same meaning in every DateStyle. */
export function textStamps(stamps: readonly number[]): string {
  return `{${stamps.map(textStamp).join(',')}}`
}

function textStamp(stamp: number): string {
  const ms = Math.floor(stamp / 1000)
  return new Date(ms).toISOString().replace('Z', `${String(stamp - ms * 1000).padStart(3, '0')}Z`)
}

/**
 * Encodes a bigint[] in PostgreSQL's binary format, which saves both sides the conversion to text:
 * https://github.com/postgres/postgres/blob/REL_15_STABLE/src/backend/utils/adt/arrayfuncs.c, array_recv.
 */
export function binaryArray(numbers: readonly bigint[]): Buffer {
  const { bytes, view } = arrayOf(INT8, numbers.length, 8)
  let at = HEADER_BYTES
  for (const number of numbers) {
    view.setInt32(at, 8)
    view.setBigInt64(at + 4, number)
    at += 12
  }
  return bytes
}

/** Encodes microseconds since 1970 as a binary timestamptz[]. */
export function binaryStamps(stamps: readonly number[]): Buffer {
  const { bytes, view } = arrayOf(TIMESTAMPTZ, stamps.length, 8)
  let at = HEADER_BYTES
  for (const stamp of stamps) {
    const fromEpoch = stamp - EPOCH_US
    const high = Math.floor(fromEpoch / 0x1_0000_0000)
    view.setInt32(at, 8)
    view.setInt32(at + 4, high)
    view.setUint32(at + 8, fromEpoch - high * 0x1_0000_0000)
    at += 12
  }
  return bytes
}

/** Encodes addresses of rows as a binary tid[]. */
export function binaryAddresses(addresses: readonly number[]): Buffer {
  const { bytes, view } = arrayOf(TID, addresses.length, 6)
  let at = HEADER_BYTES
  for (const address of addresses) {
    view.setInt32(at, 6)
    view.setUint32(at + 4, Math.floor(address / 0x1_0000))
    view.setUint16(at + 8, address % 0x1_0000)
    at += 10
  }
  return bytes
}

/**
 * The header contains the number of dimensions, whether there are nulls, the type of the elements, and the length and
 * the first index of the only dimension.
 */
const HEADER_BYTES = 20

function arrayOf(type: number, length: number, elementBytes: number): { bytes: Buffer; view: DataView } {
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + length * (4 + elementBytes))
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  for (const [index, field] of [1, 0, type, length, 1].entries()) view.setInt32(index * 4, field)
  return { bytes, view }
}

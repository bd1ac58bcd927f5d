import type { VersionRange } from '../ports/row-store.ts'

/*
 * The whole numbers that the types of columns hold. Types of floating-point numbers, and types of no numbers, have no range: no
 * version belongs there, and the server says so.
 */

const POSTGRES_BITS: Readonly<Record<string, bigint>> = { int2: 16n, int4: 32n, int8: 64n }
const MYSQL_BITS: Readonly<Record<string, bigint>> = {
  ...{ tinyint: 8n, smallint: 16n, mediumint: 24n, int: 32n, bigint: 64n },
}

/**
 * @param type the name of a type of `pg_catalog`, without that of a domain.
 * @param modifier the type's modifier, as `pg_attribute` has it.
 */
export function postgresVersionRange(type: string, modifier: number): VersionRange | undefined {
  const bits = POSTGRES_BITS[type]
  if (bits !== undefined) return binaryRange(type, bits, false)
  // Without a modifier, a numeric holds every version. A negative scale is too rare to be known here.
  if (type !== 'numeric' || modifier < 4) return undefined
  const [precision, scale] = [((modifier - 4) >> 16) & 0xffff, (modifier - 4) & 0x7ff]
  return scale > precision
    ? undefined
    : decimalRange(`numeric(${precision},${scale})`, precision - scale, false)
}

/**
 * @param type the name of the type, in lower case.
 * @param declared the type as it was declared, such as `bigint(20) unsigned`.
 */
export function mysqlVersionRange(
  type: string,
  declared: string,
  { precision, scale }: { readonly precision: number; readonly scale: number },
): VersionRange | undefined {
  const isUnsigned = /unsigned/i.test(declared)
  const bits = MYSQL_BITS[type]
  if (bits !== undefined) return binaryRange(declared, bits, isUnsigned)
  return type === 'decimal' ? decimalRange(declared, precision - scale, isUnsigned) : undefined
}

function binaryRange(type: string, bits: bigint, isUnsigned: boolean): VersionRange {
  return isUnsigned
    ? { type, min: 0n, max: 2n ** bits - 1n }
    : { type, min: -(2n ** (bits - 1n)), max: 2n ** (bits - 1n) - 1n }
}

function decimalRange(type: string, digits: number, isUnsigned: boolean): VersionRange {
  const max = 10n ** BigInt(digits) - 1n
  return { type, min: isUnsigned ? 0n : -max, max }
}

import type { RecordsBatch } from '@platformatic/kafka'

/** A record of a partition, as a consumer receives it. */
export interface StoredRecord {
  readonly topic: string
  readonly partition: number
  readonly offset: bigint
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers: readonly (readonly [Buffer | null, Buffer | null])[]
  /** Milliseconds since 1970. */
  readonly timestamp: bigint
}

/** The producers of aborted transactions, and where in the partition each transaction begins. */
export type AbortedTransactions = readonly { readonly producerId: bigint; readonly firstOffset: bigint }[]

const IS_TRANSACTIONAL = 0b1_0000
const IS_CONTROL = 0b10_0000
/** The second number in the key of a control record that ends an aborted transaction. */
const ABORT = 0

/** The size of the record in memory, roughly. */
export function bytesOf({ key, value, headers }: StoredRecord): number {
  let bytes = 200 + (key?.byteLength ?? 0) + (value?.byteLength ?? 0)
  for (const [name, text] of headers) bytes += 50 + (name?.byteLength ?? 0) + (text?.byteLength ?? 0)
  return bytes
}

/**
 * Reads the records of batches from an offset on, without those of aborted transactions.
 *
 * @returns the records, and the offset behind the batches.
 */
export function recordsIn(
  { topic, partition }: { readonly topic: string; readonly partition: number },
  batches: readonly RecordsBatch[],
  from: bigint,
  aborted: AbortedTransactions,
): { readonly records: readonly StoredRecord[]; readonly next: bigint } {
  const records: StoredRecord[] = []
  const begins = aborted.toSorted((a, b) => (a.firstOffset < b.firstOffset ? -1 : 1))
  const aborting = new Set<bigint>()
  let next = from
  for (const batch of batches) {
    const end = batch.firstOffset + BigInt(batch.lastOffsetDelta) + 1n
    while (begins.length > 0 && begins[0]!.firstOffset < end) aborting.add(begins.shift()!.producerId)
    if (end > next) next = end
    if ((batch.attributes & IS_CONTROL) !== 0) {
      if (endsAborted(batch)) aborting.delete(batch.producerId)
      continue
    }
    if ((batch.attributes & IS_TRANSACTIONAL) !== 0 && aborting.has(batch.producerId)) continue
    for (const { offsetDelta, timestampDelta, key, value, headers } of batch.records) {
      const offset = batch.firstOffset + BigInt(offsetDelta)
      if (offset < from) continue
      records.push({
        topic,
        partition,
        offset,
        key,
        value,
        headers,
        timestamp: batch.firstTimestamp + timestampDelta,
      })
    }
  }
  return { records, next }
}

function endsAborted({ records: [marker] }: RecordsBatch): boolean {
  return marker?.key?.readInt16BE(2) === ABORT
}

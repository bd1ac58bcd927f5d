import { oneLine } from '@txbox/core/internal'
import { readRecord } from './from-kafka.ts'
import type { OwnedPartition } from './owned-partition.ts'
import type { StoredRecord } from './stored-record.ts'

/** The warning about a record that was accepted together with a later one, and that this process gives up. */
export function abandonedText({ topic, partition, offset, headers, value, timestamp }: StoredRecord): string {
  const { id } = readRecord({ value, headers: new Map(headers), timestamp }).identity
  return (
    `Message ${oneLine(id)}, at the offset ${offset} of partition ${partition} of the topic '${topic}', is lost: it was accepted with a ` +
    'later message of its partition, as consumers that handle messages at most once do, and was not handled before this process gave it up.'
  )
}

/** The warning about a partition that begins again with its oldest record. */
export function restartText(
  { topic, partition, position }: OwnedPartition,
  before: bigint,
  { isRecreated }: { readonly isRecreated: boolean },
): string {
  const where = `partition ${partition} of the topic '${topic}'`
  const goesOn = `The group goes on at ${position}, the oldest record that is left`
  if (isRecreated) return `The topic '${topic}' was deleted and created again. ${goesOn} in ${where}.`
  return (
    `Kafka has no record at the offset ${before} of ${where}, where the group had to go on. ${goesOn}. Either records were deleted ` +
    'before the group received them: compare the retention of the topic with the lag of the group. Or the topic was deleted and created again.'
  )
}

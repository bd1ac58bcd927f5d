import { oneLine } from '@txbox/core/internal'
import { readRecord } from './from-kafka.ts'
import type { StoredRecord } from './stored-record.ts'

/** The warning about a record that was accepted together with a later one, and that this process gives up. */
export function abandonedText({ topic, partition, offset, headers, value, timestamp }: StoredRecord): string {
  const { id } = readRecord({ value, headers: new Map(headers), timestamp }).identity
  return (
    `Message ${oneLine(id)}, at the offset ${offset} of partition ${partition} of the topic '${topic}', is lost: it was accepted with a ` +
    'later message of its partition, as consumers that handle messages at most once do, and was not handled before this process gave it up.'
  )
}

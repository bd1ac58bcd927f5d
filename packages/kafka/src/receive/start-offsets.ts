import { ListOffsetTimestamps, type Consumer } from '@platformatic/kafka'
import type { OwnedPartition } from './owned-partition.ts'

/**
 * Sets where partitions go on: at the offset that the group has committed, or else at the oldest record or behind the newest one. A
 * partition that begins behind the newest record must be committed at once: what comes next must not be left out because the group has
 * nothing to commit yet.
 *
 * @param fromOf where a partition begins of which the group has committed nothing.
 */
export async function startOffsets(
  consumer: Consumer,
  partitions: readonly OwnedPartition[],
  fromOf: (partition: OwnedPartition) => 'earliest' | 'latest',
): Promise<void> {
  const byTopic = Map.groupBy(partitions, ({ topic }) => topic)
  const asked = [...byTopic].map(([topic, own]) => ({ topic, partitions: own.map(numberOf) }))
  const committed = await consumer.listCommittedOffsets({ topics: asked })
  for (const each of partitions) {
    const offset = committed.get(each.topic)?.[each.partition] ?? -1n
    if (offset >= 0n) each.begin(offset, true)
  }
  const others = partitions.filter(({ position }) => position === undefined)
  for (const from of ['earliest', 'latest'] as const) {
    await beginAt(
      consumer,
      others.filter((each) => fromOf(each) === from),
      from,
    )
  }
}

/** Sets the oldest record that is left as the place where the partition goes on. The group has not committed it. */
export async function startAtOldest(consumer: Consumer, partition: OwnedPartition): Promise<void> {
  await beginAt(consumer, [partition], 'earliest')
  if (partition.position !== undefined) partition.begin(partition.position, false)
}

async function beginAt(
  consumer: Consumer,
  partitions: readonly OwnedPartition[],
  from: 'earliest' | 'latest',
): Promise<void> {
  if (partitions.length === 0) return
  const byTopic = Map.groupBy(partitions, ({ topic }) => topic)
  const ends = await consumer.listOffsets({
    topics: [...byTopic.keys()],
    partitions: Object.fromEntries([...byTopic].map(([topic, own]) => [topic, own.map(numberOf)])),
    timestamp: from === 'earliest' ? ListOffsetTimestamps.EARLIEST : ListOffsetTimestamps.LATEST,
  })
  for (const each of partitions) {
    const offset = ends.get(each.topic)?.[each.partition]
    if (offset !== undefined && offset >= 0n) each.begin(offset, from === 'earliest')
  }
}

function numberOf({ partition }: OwnedPartition): number {
  return partition
}

import { ListOffsetTimestamps, type Consumer } from '@platformatic/kafka'
import type { OwnedPartition } from './owned-partition.ts'

/**
 * Sets where partitions go on: at the offset that the group has committed, or else at the oldest record or behind the newest one. A group
 * that begins behind the newest record commits that at once: what comes next must not be left out because the group has nothing to
 * commit yet.
 */
export async function startOffsets(
  consumer: Consumer,
  partitions: readonly OwnedPartition[],
  from: 'earliest' | 'latest',
): Promise<void> {
  const byTopic = Map.groupBy(partitions, ({ topic }) => topic)
  const asked = [...byTopic].map(([topic, own]) => ({ topic, partitions: own.map(numberOf) }))
  const committed = await consumer.listCommittedOffsets({ topics: asked })
  for (const each of partitions) {
    const offset = committed.get(each.topic)?.[each.partition] ?? -1n
    if (offset >= 0n) each.begin(offset, true)
  }
  const others = Map.groupBy(
    partitions.filter(({ position }) => position === undefined),
    ({ topic }) => topic,
  )
  if (others.size === 0) return
  const ends = await consumer.listOffsets({
    topics: [...others.keys()],
    partitions: Object.fromEntries([...others].map(([topic, own]) => [topic, own.map(numberOf)])),
    timestamp: from === 'earliest' ? ListOffsetTimestamps.EARLIEST : ListOffsetTimestamps.LATEST,
  })
  for (const each of [...others.values()].flat()) {
    const offset = ends.get(each.topic)?.[each.partition]
    if (offset !== undefined && offset >= 0n) each.begin(offset, from === 'earliest')
  }
}

/** Sets the oldest record that is left as the place where the partition goes on. */
export async function startAtOldest(consumer: Consumer, partition: OwnedPartition): Promise<void> {
  const { topic, partition: number } = partition
  const starts = await consumer.listOffsets({
    topics: [topic],
    partitions: { [topic]: [number] },
    timestamp: ListOffsetTimestamps.EARLIEST,
  })
  const offset = starts.get(topic)?.[number]
  if (offset !== undefined && offset >= 0n) partition.begin(offset, false)
}

function numberOf({ partition }: OwnedPartition): number {
  return partition
}

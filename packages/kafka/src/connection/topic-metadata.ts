import type { ClusterMetadata, metadataV12 } from '@platformatic/kafka'
import { responseIn } from './client-errors.ts'

/** A partition with this code misses a replica, and works. The code is REPLICA_NOT_AVAILABLE. */
const MISSES_A_REPLICA = 9

/** Stands for the leader of a partition that has none. */
const NO_LEADER = -1

/**
 * Keeps what Kafka has answered about a topic some of whose partitions have no leader: the client drops the whole answer, so that no
 * partition of the topic could be used.
 *
 * @param known what the client knows, which is changed.
 * @returns whether the error is about partitions of this topic only.
 */
export function keepUsablePartitions(
  error: unknown,
  topic: string,
  known: ClusterMetadata | undefined,
): boolean {
  const response = responseIn<metadataV12.MetadataResponse>(error, 'topics')
  const found = response?.topics.find(({ name }) => name === topic)
  if (known === undefined || response === undefined || found === undefined || found.errorCode !== 0)
    return false
  known.brokers = new Map(response.brokers.map((broker) => [broker.nodeId, broker]))
  const partitions: NonNullable<ReturnType<typeof known.topics.get>>['partitions'] = []
  for (const each of found.partitions) {
    const isUsable = each.errorCode === 0 || each.errorCode === MISSES_A_REPLICA
    partitions[each.partitionIndex] = {
      leader: isUsable ? each.leaderId : NO_LEADER,
      leaderEpoch: each.leaderEpoch,
      replicas: each.replicaNodes,
      isr: each.isrNodes,
      offlineReplicas: each.offlineReplicas,
    }
  }
  known.topics.set(topic, {
    id: found.topicId,
    partitions,
    partitionsCount: found.partitions.length,
    lastUpdate: Date.now(),
  })
  return true
}

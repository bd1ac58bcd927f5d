export interface ChunkRecord {
  readonly key: Buffer | undefined
  readonly value: Buffer
  readonly headers: ReadonlyMap<Buffer, Buffer>
  /** Milliseconds since 1970. */
  readonly timestamp: number
}

/** Records of one partition, which become one batch. */
export interface Chunk {
  readonly topic: string
  readonly partition: number
  /** The number of partitions of the topic, when the partition was chosen. */
  readonly partitions: number
  readonly records: readonly ChunkRecord[]
  readonly bytes: number
}

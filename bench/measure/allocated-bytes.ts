import { Session } from 'node:inspector/promises'

/** One sample for so many bytes on average. */
const SAMPLED_BYTES = 16 * 1024

/** Returns about how many bytes of JavaScript objects the work allocates, garbage included. The work is slower meanwhile. */
export async function allocatedBytes(work: () => Promise<unknown>): Promise<number> {
  const session = new Session()
  session.connect()
  await session.post('HeapProfiler.startSampling', {
    samplingInterval: SAMPLED_BYTES,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  })
  await work()
  const { profile } = await session.post('HeapProfiler.stopSampling')
  session.disconnect()
  const bytesIn = ({ selfSize, children }: Node): number =>
    children.reduce((bytes, child) => bytes + bytesIn(child), selfSize)
  return bytesIn(profile.head)
}

interface Node {
  readonly selfSize: number
  readonly children: readonly Node[]
}

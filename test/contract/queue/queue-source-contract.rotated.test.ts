import { queueSource } from '@txbox/queue'
import { QueueUnderTest } from '../../support/subjects/queue-under-test.ts'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import { sourceContract } from '../../support/subjects/source-contract.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 8 })

sourceContract('stored queue', async () => {
  const { proxy, through } = await rootThroughProxy(target, mainKind(target))
  // Messages are sent, and looked at, past the network that breaks.
  const subject = new QueueUnderTest(target, root)
  const queue = subject.twin(through)
  return {
    source: queueSource(queue, { pollIntervalMs: { min: 5, max: 20 } }),
    send: async (ids) => void (await subject.sendTogether(ids.map((id) => ({ id })))),
    cut: () => proxy.cut(),
    left: () => subject.visible(),
    rejected: async () => (await subject.queue.deadLetters.list({ limit: 1000 })).map(({ id }) => id),
  }
})

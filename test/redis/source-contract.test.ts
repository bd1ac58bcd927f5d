import { onTestFinished } from 'vitest'
import { redisSource, type RedisSourceOptions } from '@txbox/redis'
import { sourceContract } from '@txbox/testing'
import { testContract } from '../support/subjects/contract-tests.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { clientsOfTier, useRedis } from './redis-under-test.ts'
import { leftIn, publishingClient, StreamLog, urlAt } from './streams-under-test.ts'
import { uniqueName } from './unique-name.ts'

const redis = useRedis()
const GROUP = 'billing'
const leaseMs = 1000
const traits = {
  ...{ delays: false, countsDeliveries: true, keepsRejected: true, ordersKeys: false },
  ...{ settlesInTransaction: false, leaseMs },
}

for (const how of ['url', ...clientsOfTier('ioredis')] as const) {
  const cases = sourceContract({ traits }, async () => {
    const network = await UnreliableNetwork.to(redis.address)
    onTestFinished(() => network.close())
    const stream = uniqueName()
    const from =
      how === 'url'
        ? { url: urlAt(network.address) }
        : { client: (await publishingClient(how, network.address)) as RedisSourceOptions['client'] }
    const source = redisSource({ ...from, stream, group: GROUP, leaseMs })
    // The first connection creates the group.
    await (await source.open({ prefetch: 1, failed: () => undefined })).close()
    const dead = new StreamLog(redis, `{${stream}}:${GROUP}:dead`)
    const rejected: string[] = []
    return {
      source,
      send: async (ids, { key } = {}) => {
        for (const id of ids) {
          const fields = ['id', id, ...(key === undefined ? [] : ['key', key]), 'payload', '{}']
          await redis.ask('XADD', stream, '*', ...fields)
        }
      },
      network,
      left: () => leftIn(redis, stream, GROUP),
      rejected: async () => {
        rejected.push(...(await dead.ids()))
        return rejected
      },
    }
  })

  testContract(cases, { suffix: ` (${how})` })
}

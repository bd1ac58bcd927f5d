// A process that holds shards of a local consumer, and reports which.
import { connectedPortsOf } from '@txbox/core/internal'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { joinLocalHub } from '../../../packages/consumer/src/local/local-hub.ts'
import { mortalMysqlPool } from './mortal-mysql-pool.ts'
import { configOf, Mortal, report, type ProgramConfig } from './mortal.ts'

export interface LocalHubConfig extends ProgramConfig {
  readonly consumer: string
  readonly leaseMs: number
}

const config = configOf<LocalHubConfig>()
const mortal = new Mortal(config.fate)
const database = config.url.startsWith('mysql:')
  ? mysql({ db: mortalMysqlPool(mortal, config, 6) })
  : postgres({ db: mortal.pool(config, 6) })

const membership = await joinLocalHub(connectedPortsOf('test', database), {
  consumer: config.consumer,
  types: ['made'],
  leaseMs: config.leaseMs,
  pollMs: { listening: { min: 5, max: 20 }, polling: { min: 5, max: 20 } },
  listens: true,
  listener: {
    acquired: ({ shard, crashes }) => report(`acquired ${shard} after ${crashes} crashes`),
    lost: ({ shard }, reason) => report(`lost ${shard}: ${reason}`),
    found: ({ shard }) => report(`found ${shard}`),
    failed: (error) => report(`failed ${String(error)}`),
    notListening: (error) => report(`not listening ${String(error)}`),
  },
})
report('started')
process.on('message', () => {
  void membership.leave(AbortSignal.timeout(5000)).then(() => report('left'))
})

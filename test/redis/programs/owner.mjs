// Begins one claim, extends it while it can, and completes it when it is asked to.
import { Redis } from 'ioredis'
import { redisDedup } from '@txbox/redis'

const client = new Redis(Number(process.env.REDIS_PORT), '127.0.0.1')
const dedup = redisDedup({ client })
const begun = await dedup.begin({ consumer: 'orders', key: process.env.KEY, leaseMs: 1000 })
const beat = setInterval(() => void dedup.extend(begun.token, 1000), 300)
process.once('message', () => void end())
process.once('disconnect', () => process.exit())
process.send(begun.status)

async function end() {
  clearInterval(beat)
  const extended = await dedup.extend(begun.token, 60_000)
  const completed = await dedup.complete(begun.token)
  const released = await dedup.release(begun.token)
  process.send([extended, completed, released])
}

// Publishes by a URL where node-redis is not installed.
import { registerHooks } from 'node:module'

registerHooks({
  resolve(name, context, next) {
    if (name !== 'redis' && name !== '@redis/client') return next(name, context)
    throw Object.assign(new Error(`Cannot find package '${name}'`), { code: 'ERR_MODULE_NOT_FOUND' })
  },
})
const { redisPublisher } = await import('@txbox/redis')
const publisher = redisPublisher({ url: 'redis://127.0.0.1' })
const { signal } = new AbortController()
await publisher.check({ signal }).catch((error) => process.send(`${error.code} ${error.message}`))
process.disconnect()

// The same relay with RabbitMQ, and without listeners.
import { Pool } from 'pg'
import { postgres } from '@txbox/postgres'
import { rabbitmqPublisher } from '@txbox/rabbitmq'
import { createRelay } from '@txbox/relay'

const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 6 })
pool.on('error', console.error)
const publisher = rabbitmqPublisher({ url: process.env.BROKER_URL })
const relay = createRelay({ database: postgres({ db: pool }), publisher })
await relay.start()
process.once('SIGTERM', () => void relay.stop())
await relay.stopped
await pool.end()

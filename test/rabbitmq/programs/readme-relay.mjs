// The relay of the README, with an endpoint from the environment.
import { Pool } from 'pg'
import { postgres } from '@txbox/postgres'
import { createRelay, publishEach } from '@txbox/relay'

const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 6 })
pool.on('error', console.error)
const publisher = publishEach(async (message, { signal }) => {
  const url = `${process.env.ENDPOINT}/${message.topic}`
  const answer = await fetch(url, { method: 'POST', body: message.text(), signal })
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`)
})
const relay = createRelay({ database: postgres({ db: pool }), publisher })
relay.on('error', ({ error }) => console.error(error))
await relay.start()
process.once('SIGTERM', () => void relay.stop())
await relay.stopped
await pool.end()

// Three services in processes of their own (three-services/): orders are taken over HTTP and stored with an outbox, billed
// with an inbox, and shown by a read model with versions. Billing and the read model are killed in the middle.
import { fork, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from 'amqplib'
import { Pool } from 'pg'

const name = `txbox-example-${randomUUID()}`
const AMQP_URL = process.env['AMQP_URL'] ?? 'amqp://localhost'
const common = { ...process.env, AMQP_URL, BILLING: `${name}-billing`, VIEW: `${name}-view` }
const [ordersPort, viewPort] = [await freePort(), await freePort()]

async function start(service: string, PORT = '0'): Promise<ChildProcess> {
  const file = path.join(import.meta.dirname, 'three-services', `${service}.ts`)
  const child = fork(file, { env: { ...common, PORT }, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(() => Promise.reject(new Error(`${service} does not start.`))),
  ])
  return child
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'exit')
}

let [billing, view] = await Promise.all([start('billing'), start('order-view', viewPort)])
const orders = await start('orders', ordersPort)
const place = async (order: string, cents: number): Promise<void> => {
  const body = JSON.stringify({ order, cents })
  const { ok } = await fetch(`http://127.0.0.1:${ordersPort}`, { method: 'PUT', body })
  if (!ok) throw new Error(`The change of ${order} to ${cents} cents has failed.`)
}
for (let cents = 1; cents <= 30; cents++) {
  await Promise.all(['pears', 'plums'].map((order) => place(order, cents)))
  if (cents === 10) {
    await kill(view)
    view = await start('order-view', viewPort)
  }
  if (cents === 20) {
    await kill(billing)
    billing = await start('billing')
  }
}

const readOrders = async (): Promise<readonly { id: string; cents: number; version: number }[]> => {
  const response = await fetch(`http://127.0.0.1:${viewPort}`)
  return (await response.json()) as Awaited<ReturnType<typeof readOrders>>
}
while ((await readOrders()).filter(({ version }) => version === 30).length < 2) await pause(50)
for (const { id, cents, version } of await readOrders())
  console.log(`${id}: ${cents} cents, version ${version}`)

const pool = new Pool({ connectionString: process.env['DATABASE_URL'] })
const { rows } = await pool.query(
  'select count(*)::int as bookings, count(distinct (order_id, version))::int as changes from billing.bookings',
)
console.log(rows[0])
await pool.end()

await Promise.all([orders, billing, view].map(kill))
const connection = await connect(AMQP_URL)
const channel = await connection.createChannel()
for (const queue of [common.BILLING, common.VIEW]) await channel.deleteQueue(queue)
await connection.close()

async function freePort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return String(port)
}

// prints:
// pears: 30 cents, version 30
// plums: 30 cents, version 30
// { bookings: 60, changes: 60 }

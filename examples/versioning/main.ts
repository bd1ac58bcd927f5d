// DATABASE_URL=postgres://… node examples/versioning/main.ts: four ways to apply changes that come in any order.
import { createInbox, isTxboxError } from 'txbox'
import { openDatabase } from './database.ts'
import { changesOf, judge, waysOn, type Change, type Way } from './ways.ts'

const ORDERS = 20
const WORKERS = 4

const url = process.env['DATABASE_URL']
if (url === undefined) {
  console.error('Set DATABASE_URL to a PostgreSQL (postgres://…), MySQL or MariaDB (mysql://…).')
  process.exit(2)
}
const opened = await openDatabase(url)
const { db, database } = opened
console.log(
  `${ORDERS} orders with 4 changes each; every change comes twice, all in any order, to ${WORKERS} workers\n`,
)
console.log('way             orders delivered   by each change once, in order   redeliveries')
let failed = false
try {
  for (const [name, way] of Object.entries(waysOn(opened))) {
    const orders = Array.from({ length: ORDERS }, (_, n) => `${name} ${n} ${process.pid}.${Date.now()}`)
    const rows = orders.map((id) => ({
      id,
      status: 'placed' as const,
      history: '',
      version: 1,
      changed_at: null,
    }))
    await db.insertInto('example_orders').values(rows).execute()
    const redeliveries = await deliver(name, way, shuffle(orders.flatMap(changesOf)))
    const { delivered, inOrder } = await judge(db, orders)
    console.log(
      `${name.padEnd(14)}${String(delivered).padStart(14)} of ${ORDERS}${String(inOrder).padStart(24)} of ${ORDERS}${String(redeliveries).padStart(15)}`,
    )
    if (name !== 'nothing') failed ||= delivered < ORDERS
    if (name === 'strict' || name === 'state machine') failed ||= inOrder < ORDERS
  }
} finally {
  await db.schema.dropTable('example_orders').execute()
  await db.destroy()
}
process.exitCode = failed ? 1 : 0

/**
 * Delivers as a broker does: to several workers, each change twice, and an unhandled change again at the end of the
 * queue.
 */
async function deliver(name: string, way: Way, changes: readonly Change[]): Promise<number> {
  const inbox = createInbox({ database, consumer: `example ${name}` })
  const queue = [...changes, ...shuffle(changes)]
  let redeliveries = 0
  const worker = async (): Promise<void> => {
    for (let change = queue.shift(); change !== undefined; change = queue.shift()) {
      const { order, to } = change
      try {
        await inbox.run({ id: `${order}@${to}`, payload: change }, (tx, message) => way(tx, message.payload))
      } catch (error) {
        if (!isTxboxError(error) || !error.retryable) throw error
        redeliveries++
        queue.push(change)
      }
    }
  }
  await Promise.all(Array.from({ length: WORKERS }, worker))
  return redeliveries
}

function shuffle<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ item }) => item)
}

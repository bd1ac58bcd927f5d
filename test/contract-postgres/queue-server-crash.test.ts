import { chmodSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ReceiptExpiredError } from '@txbox/core'
import { migrate, postgres } from '@txbox/postgres'
import { createQueue, type Queue, type Received } from '@txbox/queue'
import { Pool, type PoolClient } from 'pg'
import { idsOf, sortedIds } from '../support/subjects/queue-under-test.ts'
import { freePort } from '../support/engines/servers/free-port.ts'
import type { KeptProcess } from '../support/engines/servers/kept-process.ts'
import { PostgresProgram } from '../support/engines/servers/postgres-program.ts'

// A receive does not wait for the disk. So that what it has written is certain to be lost, the server writes its log late.
const SETTINGS = [
  'wal_writer_delay=10s',
  'wal_writer_flush_after=1GB',
  'autovacuum=off',
  'checkpoint_timeout=1h',
]

let folder: string
let program: PostgresProgram
let data: string
let port: number
let server: KeptProcess
let pool: Pool

beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-queue-crash-'))
  chmodSync(folder, 0o755)
  program = PostgresProgram.find(folder)
  program.own(folder)
  data = path.join(folder, 'data')
  await program.initialise(data)
  port = await freePort()
  server = await program.start(data, port, SETTINGS)
  pool = new Pool({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres', max: 4 })
  pool.on('error', () => undefined)
  await migrate(pool)
  await pool.query('create table effects (id text)')
})
afterAll(async () => {
  await pool?.end()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** Kills the server, and starts it on what it had written. */
async function crash(): Promise<void> {
  await server.stop()
  server = await program.start(data, port, SETTINGS)
}

/** Sends four messages, in whose order nothing waits for anything. @returns their ids */
async function sent(queue: Queue<PoolClient>, keyed: boolean): Promise<string[]> {
  const ids = ['a', 'b', 'c', 'd'].map((id) => `${queue.name} ${id}`)
  await postgres({ db: pool }).transact(async (tx) => {
    for (const id of ids) await queue.send(tx, { id, payload: {}, ...(keyed && { key: id }) })
  })
  return ids
}

async function handle(queue: Queue<PoolClient>, received: Received): Promise<void> {
  await postgres({ db: pool }).transact(async (tx) => {
    await queue.delete(received, { tx })
    await tx.query('insert into effects (id) values ($1)', [received.message.id])
  })
}

test.each([
  ['without a key', false],
  ['with keys', true],
])(
  'Q5 Q7 Q9 Q21 a crash of the server undoes its last receives, and no settlement: messages %s',
  async (name, keyed) => {
    const queue = createQueue({ database: postgres({ db: pool }), name })
    const ids = await sent(queue, keyed)
    const [first] = await queue.receive({ limit: 1 })
    await handle(queue, first!)
    const lost = await queue.receive()
    expect(lost).toHaveLength(3)
    await crash()
    // These receipts would be valid for half a minute.
    for (const each of lost) {
      await expect(handle(queue, each)).rejects.toThrow(ReceiptExpiredError)
      await expect(queue.delete(each)).rejects.toThrow(ReceiptExpiredError)
    }
    const again = await queue.receive()
    expect(idsOf(again).toSorted()).toEqual(sortedIds(idsOf(lost)))
    for (const each of again) await handle(queue, each)
    const { rows } = await pool.query<{ id: string }>('select id from effects where id like $1', [
      `${name} _`,
    ])
    expect(rows.map(({ id }) => id).toSorted()).toEqual(ids)
  },
)

test('Q15 Q18 a crash of the server undoes no receive with an attempt id, and none with remove', async () => {
  const queue = createQueue({ database: postgres({ db: pool }), name: 'durable' })
  await sent(queue, true)
  const received = await queue.receive({ limit: 2, attemptId: 'x' })
  await crash()
  expect(await queue.receive({ limit: 2, attemptId: 'x' })).toMatchObject(
    received.map(({ receipt, message: { id } }) => ({ receipt, message: { id } })),
  )
  const removed = await queue.receive({ remove: true })
  expect(removed).toHaveLength(2)
  await crash()
  expect(await queue.receive()).toEqual([])
})

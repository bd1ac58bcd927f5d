import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { createOutbox } from '@txbox/outbox'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import mysql2 from 'mysql2/promise'
import { Client } from 'pg'
import { sqlOfMysql, sqlOfPg } from '../database/sql.ts'
import type { Change, Illness } from '../workers/worker-protocol.ts'
import type { Fault, Surroundings } from './fault.ts'

export const deadlocks: Fault = {
  about: 'producers lock the same few rows in any order',
  harms: 'nothing',
  group: 'mode',
  async inject({ behave }, draw) {
    const ms = draw.integer(1000, 3000)
    const mode = behave({ unordered: true })
    await pause(ms)
    mode.over()
    return `locks in any order for ${ms} ms`
  },
}

export const lateCommits: Fault = {
  about: 'producers commit late, or roll back, after others have committed higher numbers',
  harms: 'nothing',
  group: 'mode',
  async inject({ behave }, draw) {
    const ms = draw.integer(1000, 3000)
    const mode = behave({ late: true, rollback: 0.4 })
    await pause(ms)
    mode.over()
    return `late commits and rollbacks for ${ms} ms`
  },
}

export const deliveriesTwisted: Fault = {
  about: 'deliveries come twice, late, in another order, or again after they were acknowledged',
  harms: 'nothing',
  async inject({ recorder, behave }, draw) {
    const ms = draw.integer(500, 2500)
    const mode = behave({ redeliver: 0.3 })
    recorder.faults = { duplicate: draw.next() / 2, hold: draw.next() / 3 }
    await pause(ms)
    recorder.faults = { duplicate: 0, hold: 0 }
    mode.over()
    await recorder.letGo()
    const again = await recorder.redeliverLatest(draw.integer(10, 200), draw)
    return `deliveries twisted for ${ms} ms, and ${again} old ones again`
  },
}

export const poisonConsumer: Fault = {
  about: 'messages that make a handler throw or hang, or kill its process',
  harms: 'nothing',
  group: 'mode',
  async inject({ behave }, draw) {
    const ill = draw.pick(['throw', 'hang', 'kill'] as const)
    const mode = behave({ ill })
    await pause(draw.integer(300, 1500))
    mode.over()
    return `messages whose handler ${{ throw: 'throws', hang: 'hangs', kill: 'is killed' }[ill]}`
  },
}

export const slowMessages: Fault = {
  about: 'messages whose handler takes long',
  harms: 'nothing',
  group: 'mode',
  async inject({ behave }, draw) {
    const ms = draw.integer(300, 2000)
    const mode = behave({ ill: 'slow' })
    await pause(ms)
    mode.over()
    return `slow messages for ${ms} ms`
  },
}

export const poisonRelay: Fault = {
  about: 'a message that kills every relay that publishes it, or makes its publisher hang',
  harms: 'nothing',
  weight: 0.5,
  group: 'process',
  async inject(on, draw) {
    const ill = draw.pick(['kills-relay', 'kills-relay', 'hangs-relay'] as const)
    const id = await publishIll(on, ill)
    on.relayPoison.add(id)
    return `a message that ${ill.replace('-', ' a ')}: ${id}`
  },
}

/** Publishes a message of a key of its own, as a producer does: in a transaction with its row in the ledger. */
async function publishIll({ engine, database }: Surroundings, ill: Illness): Promise<string> {
  const id = randomUUID()
  const payload: Change = { ill, padding: '' }
  const message = { id, topic: 'chaos.ill', key: id, payload }
  const ledger = `insert into chaos_committed (message_id, name, epoch, ill, producer) values (?, ?, '', ?, 'driver')`
  if (engine === 'postgres') {
    const client = new Client({ connectionString: database.directUrl() })
    await client.connect()
    try {
      await client.query('begin')
      await sqlOfPg(client).query(ledger, [id, id, ill])
      await createOutbox({ database: postgres() }).publish(client, message)
      await client.query('commit')
    } finally {
      await client.end()
    }
    return id
  }
  const connection = await mysql2.createConnection(database.directUrl())
  try {
    await connection.query('begin')
    await sqlOfMysql(connection).query(ledger, [id, id, ill])
    await createOutbox({ database: mysql() }).publish(connection, message)
    await connection.query('commit')
  } finally {
    await connection.end()
  }
  return id
}

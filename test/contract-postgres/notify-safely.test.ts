import { setTimeout as sleep } from 'node:timers/promises'
import { connectedPortsOf } from '@txbox/core/internal'
import { createOutbox, type Outbox } from '@txbox/outbox'

import { migrate, postgres } from '@txbox/postgres'
import { Client, Pool, type PoolClient } from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { startEmbeddedPostgres } from '../support/engines/servers/embedded-postgres.ts'
import { until } from '../support/worlds/until.ts'

/** A server of these tests' own, with these settings. */
function useServer(...settings: readonly string[]): { pool: () => Pool; connect: () => Promise<Client> } {
  let server: { url: string; stop: () => Promise<void> }
  let pool: Pool
  beforeAll(async () => {
    server = await startEmbeddedPostgres(['fsync=off', ...settings].flatMap((setting) => ['-c', setting]))
    pool = new Pool({ connectionString: server.url, max: 6 })
    pool.on('error', () => undefined)
    await migrate(pool)
  })
  afterAll(async () => {
    await pool.end()
    await server.stop()
  })
  return {
    pool: () => pool,
    async connect() {
      const client = new Client({ connectionString: server.url })
      client.on('error', () => undefined)
      await client.connect()
      onTestFinished(() => client.end())
      return client
    },
  }
}

/** The warnings that say why nobody is notified. Each test has modules of its own, and so a process that has said nothing. */
function warnings(): () => string[] {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
  onTestFinished(() => warn.mockRestore())
  return () => warn.mock.calls.map(([text]) => String(text)).filter((text) => text.includes('do not notify'))
}

/** Stores a message in a transaction, whose end is given. Waits until the budget of notifications is full again. */
async function publish(
  pool: Pool,
  { begin = 'begin', end = 'commit', notify }: { begin?: string; end?: string; notify?: boolean } = {},
): Promise<void> {
  await sleep(1100)
  const client: PoolClient = await pool.connect()
  try {
    await client.query(begin)
    await outboxOf(notify).publish(client, { topic: 't', payload: 1 })
    await client.query(end)
  } finally {
    await client.query('rollback')
    client.release()
  }
}

function outboxOf(notify: boolean | undefined): Outbox {
  return createOutbox({ database: postgres(), ...(notify !== undefined && { notify }) })
}

async function stored(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ n: number }>('select count(*)::int as n from txbox.outbox')
  return rows[0]!.n
}

describe('a server with prepared transactions', () => {
  const server = useServer('max_prepared_transactions=4')

  test('U3 PREPARE TRANSACTION works after a publish that asked for no notification, which is said once', async () => {
    const warned = warnings()
    const pool = server.pool()
    const listener = await server.connect()
    const heard: string[] = []
    listener.on('notification', ({ channel }) => void heard.push(channel))
    await listener.query('listen "txbox_outbox_7c7d129d"')
    for (const name of ['first', 'second']) {
      await publish(pool, { end: `prepare transaction '${name}'` })
      await pool.query(`commit prepared '${name}'`)
    }
    expect(await stored(pool)).toBe(2)
    expect(heard).toEqual([])
    expect(warned()).toEqual([expect.stringContaining('max_prepared_transactions')])
    const ports = connectedPortsOf('test', postgres({ db: pool }))
    const findings = await ports.inspection().diagnose({ longTransactionMs: 60_000 })
    expect(findings.find(({ check }) => check === 'notify')).toMatchObject({ verdict: 'warning' })
    // What would have happened without the check.
    await expect(publish(pool, { end: "prepare transaction 'third'", notify: true })).rejects.toThrow(
      /NOTIFY/,
    )
  })
})

describe('a server with a small queue of notifications', () => {
  const server = useServer('max_notify_queue_pages=64')

  /** Fills the queue, which a listener in an open transaction keeps full, up to a share of it. */
  async function fill(upTo: number): Promise<void> {
    const [sender, reader] = [await server.connect(), await server.connect()]
    await reader.query('listen blocked')
    await reader.query('begin; select 1')
    for (let n = 0; n < 100; n += 1) {
      const { rows } = await sender.query<{ usage: number }>('select pg_notification_queue_usage() as usage')
      if (rows[0]!.usage >= upTo) return
      await sender
        .query(`select pg_notify('filler', repeat('x', 7900) || $1 || n) from generate_series(1, 2) as n`, [
          n,
        ])
        .catch(() => undefined)
    }
  }

  test('U3 a transaction with a lock timeout does not wait for the lock of notifying transactions', async () => {
    const pool = server.pool()
    const admin = await server.connect()
    const warned = warnings()
    // A COMMIT that waits for a standby that never comes keeps the lock.
    await admin.query("alter system set synchronous_standby_names = 'nobody'")
    await admin.query('select pg_reload_conf()')
    onTestFinished(async () => {
      await admin.query('alter system reset synchronous_standby_names')
      await admin.query('select pg_reload_conf()')
    })
    const holder = await server.connect()
    await holder.query('begin; create table held (); notify held')
    const holding = holder.query('commit')
    await until(
      async () =>
        (await admin.query("select from pg_stat_activity where wait_event = 'SyncRep'")).rows.length > 0,
      () => 'a COMMIT waits for a standby',
    )
    const begin = "begin; set local synchronous_commit = local; set local lock_timeout = '300ms'"
    const before = await stored(pool)
    await publish(pool, { begin })
    expect(await stored(pool)).toBe(before + 1)
    // What would have happened without the check.
    await expect(publish(pool, { begin, notify: true })).rejects.toThrow(/lock timeout/)
    expect(warned()).toEqual([expect.stringContaining('lock_timeout')])
    await admin.query("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")
    await holding
  })

  test('U3 a role that may not notify publishes all the same', async () => {
    const pool = server.pool()
    const warned = warnings()
    await pool.query(`
      create role restricted;
      grant usage on schema txbox to restricted;
      grant select, insert on all tables in schema txbox to restricted;
      grant usage on all sequences in schema txbox to restricted;
      revoke execute on function pg_catalog.pg_notify(text, text) from public`)
    const before = await stored(pool)
    await publish(pool, { begin: 'begin; set local role restricted' })
    expect(await stored(pool)).toBe(before + 1)
    await expect(publish(pool, { begin: 'begin; set local role restricted', notify: true })).rejects.toThrow(
      /pg_notify|permission/,
    )
    expect(warned()).toEqual([expect.stringContaining('may not execute')])
    await pool.query('grant execute on function pg_catalog.pg_notify(text, text) to public')
  })

  test('U3 each transaction notifies by the privilege of its own role, also on one connection', async () => {
    const pool = server.pool()
    warnings()
    await pool.query(`
      create role silenced;
      grant usage on schema txbox to silenced;
      grant select, insert on all tables in schema txbox to silenced;
      grant usage on all sequences in schema txbox to silenced;
      revoke execute on function pg_catalog.pg_notify(text, text) from public`)
    const listener = await server.connect()
    const heard: string[] = []
    listener.on('notification', ({ channel }) => void heard.push(channel))
    await listener.query('listen "txbox_outbox_7c7d129d"')
    const outbox = outboxOf(undefined)
    const client = await server.connect()
    const before = await stored(pool)
    for (const role of ['', 'set local role silenced', '']) {
      await sleep(1100)
      await client.query(`begin; ${role}`)
      await outbox.publish(client, { topic: 't', payload: 1 })
      await client.query('commit')
    }
    expect(await stored(pool)).toBe(before + 3)
    await until(
      async () => heard.length >= 2,
      () => `2 notifications; there are ${heard.length}`,
    )
    expect(heard.length).toBe(2)
    await pool.query('grant execute on function pg_catalog.pg_notify(text, text) to public')
  })

  test('U3 a queue of notifications that is half full gets none that nobody asked for; a full one fails no such transaction', async () => {
    const warned = warnings()
    const pool = server.pool()
    const atFirst = await stored(pool)
    await fill(0.6)
    await publish(pool)
    await publish(pool)
    expect(await stored(pool)).toBe(atFirst + 2)
    expect(warned()).toEqual([expect.stringContaining('half full')])
    await fill(0.98)
    await until(
      () =>
        publish(pool, { notify: true }).then(
          () => false,
          (error: unknown) => /NOTIFY queue/.test(String(error)),
        ),
      () => 'the queue is full',
    )
    const before = await stored(pool)
    await publish(pool)
    expect(await stored(pool)).toBe(before + 1)
    expect(warned()).toHaveLength(1)
  })
})

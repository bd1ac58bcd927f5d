import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { startChaosDatabase, type ChaosDatabase } from '../../chaos/servers/chaos-database.ts'
import { until } from '../support/worlds/until.ts'
import { SqlConnection, query } from './sql-connection.ts'

const engine = inject('engine')
const MAX_CONNECTIONS = 12
const ID = engine === 'postgres' ? 'bigint generated always as identity' : 'bigint auto_increment'

let folder: string
let database: ChaosDatabase

beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-test-servers-'))
  database = await startChaosDatabase(engine, { folder, maxConnections: MAX_CONNECTIONS })
  await query(database.url, `create table item (id ${ID} primary key, name varchar(20) not null)`)
})
afterAll(async () => {
  await database.stop()
  expect(readdirSync(folder)).toEqual([])
  await rm(folder, { recursive: true })
})

/** One transaction each. */
async function add(names: readonly string[]): Promise<void> {
  const connection = await SqlConnection.to(database.url)
  for (const name of names) await connection.query(`insert into item (name) values ('${name}')`)
  connection.end()
}

async function itemsAt(url: string): Promise<{ id: number; name: string }[]> {
  const rows = await query(url, 'select id, name from item order by id')
  return rows.map((row) => ({ id: Number(row['id']), name: String(row['name']) }))
}

async function namesAt(url: string): Promise<string[]> {
  return (await itemsAt(url)).map(({ name }) => name)
}

function names(what: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => `${what} ${n}`)
}

test('committed rows survive an immediate restart, and the standby continues', async () => {
  const open = await SqlConnection.to(database.url)
  const lost = open.lost()
  await add(names('kept', 20))
  await open.query('begin')
  await open.query("insert into item (name) values ('never committed')")
  await database.restart()
  await lost
  expect(await namesAt(database.url)).toEqual(names('kept', 20))
  // It resolves when the standby has all.
  await database.holdReplication()
  await database.resumeReplication()
})

test('each of two failovers loses exactly the rows committed since the standby was held, and assigns their numbers again', async () => {
  for (const round of ['first', 'second']) {
    const before = await itemsAt(database.url)
    await add([`before ${round}`])
    await database.holdReplication()
    const lost = names(`lost ${round}`, 100)
    await add(lost)
    const open = await SqlConnection.to(database.url)
    const gone = open.lost()
    const directUrl = database.directUrl()
    const { url } = database

    const { formerUrl, discardFormer } = await database.failOver()
    await gone
    expect(database.url).toBe(url)
    expect(database.directUrl()).not.toBe(directUrl)
    const kept = [...before.map(({ name }) => name), `before ${round}`]
    expect(await namesAt(url)).toEqual(kept)
    expect(await namesAt(database.directUrl())).toEqual(kept)
    expect(await namesAt(formerUrl)).toEqual([...kept, ...lost])
    await expect(query(formerUrl, "insert into item (name) values ('late')")).rejects.toThrow(/read.only/)
    await expect(query(directUrl, 'select 1')).rejects.toThrow(/ECONNREFUSED/)

    await add(names(`after ${round}`, 100))
    const former = new Map((await itemsAt(formerUrl)).map(({ id, name }) => [id, name]))
    const again = (await itemsAt(url)).filter(({ id, name }) => former.has(id) && former.get(id) !== name)
    expect(again.length).toBeGreaterThan(50)
    await discardFormer()
    await expect(query(formerUrl, 'select 1')).rejects.toThrow(/ECONNREFUSED/)
  }
})

test('a failover to a standby that was not held loses no row that the standby had, and the new standby follows', async () => {
  await add(['settled'])
  await database.holdReplication()
  await database.resumeReplication()
  const before = await namesAt(database.url)
  const { discardFormer } = await database.failOver()
  await discardFormer()
  expect(await namesAt(database.url)).toEqual(before)
  // Afterwards only the current standby can have this row.
  await add(['followed'])
  await database.holdReplication()
  const { formerUrl } = await database.failOver()
  expect(await namesAt(database.url)).toEqual([...before, 'followed'])
  expect(await namesAt(formerUrl)).toEqual([...before, 'followed'])
})

test('a connection limit that is reached keeps clients out, but not the driver or the standby', async () => {
  const connections: SqlConnection[] = []
  for (let n = 0; n < MAX_CONNECTIONS; n++) connections.push(await SqlConnection.to(database.url))
  await expect(SqlConnection.to(database.url)).rejects.toThrow(/too many|remaining connection slots/i)
  expect(await query(database.directUrl(), 'select 1 as one')).toEqual([{ one: 1 }])
  await query(database.directUrl(), "insert into item (name) values ('by the driver')")
  await database.holdReplication()
  await database.resumeReplication()
  for (const connection of connections) connection.end()
})

test('the servers end, and leave no files, when the process that started them is killed', async () => {
  const parent = path.join(folder, 'killed')
  const script = `
    const { startChaosDatabase } = await import('./chaos/servers/chaos-database.ts')
    const options = { folder: ${JSON.stringify(parent)}, maxConnections: 10 }
    const database = await startChaosDatabase('${engine}', options)
    console.log(database.directUrl())
    process.kill(process.pid, 'SIGKILL')`
  const node = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', script]
  const url = await new Promise<string>((resolve, reject) => {
    execFile(process.execPath, node, (error, stdout, stderr) => {
      if (error?.signal === 'SIGKILL' && stdout !== '') resolve(stdout.trim())
      else reject(new Error(`It ended by itself: ${stderr}`))
    })
  })
  await until(
    async () => !existsSync(parent),
    () => `${parent} is gone`,
  )
  await expect(query(url, 'select 1')).rejects.toThrow(/ECONNREFUSED/)
})

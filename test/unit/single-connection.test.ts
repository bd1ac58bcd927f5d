import { expect, test } from 'vitest'
import { InvalidOptionError } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { load } from '../libraries/newest/load.ts'

type Make = (options: { client: object }) => never
type Class = new (options: object) => object

// Nothing connects.
const pg = ((await load('pg')) as { default: { Client: Class; Pool: Class } }).default
const neon = (await load('@neondatabase/serverless')) as { Client: Class; Pool: Class }
const mysql2 = (
  (await load('mysql2')) as {
    default: { createPool(o: object): { promise(): object }; Connection: { prototype: object } }
  }
).default
const { PromiseConnection } = (await load('mysql2/promise')) as { PromiseConnection: { prototype: object } }
const sql = ((await load('postgres')) as { default: () => object }).default()
const drizzleOn = async (driver: string): Promise<Make> =>
  ((await load(`drizzle-orm/${driver}`)) as { drizzle: Make }).drizzle
const onPg = await drizzleOn('node-postgres')
const onNeon = await drizzleOn('neon-serverless')
const onMysql = await drizzleOn('mysql2')
const onPostgresJs = await drizzleOn('postgres-js')
const pool = mysql2.createPool({})

for (const [name, database] of Object.entries({
  'a pg.Client': () => postgres({ db: onPg({ client: new pg.Client({}) }) }),
  'a Client of Neon': () => postgres({ db: onNeon({ client: new neon.Client({}) }) }),
  'a promise connection of mysql2': () =>
    mysql({ db: onMysql({ client: Object.create(PromiseConnection.prototype) as object }) }),
  'a callback connection of mysql2': () =>
    mysql({ db: onMysql({ client: Object.create(mysql2.Connection.prototype) as object }) }),
})) {
  test(`Drizzle on ${name} is refused, because concurrent transactions would be one`, () => {
    expect(database).toThrow(InvalidOptionError)
    expect(database).toThrow(/a single connection/)
  })
}

for (const [name, database] of Object.entries({
  'a pg.Pool': () => postgres({ db: onPg({ client: new pg.Pool({}) }) }),
  'a Pool of Neon': () => postgres({ db: onNeon({ client: new neon.Pool({}) }) }),
  'postgres.js': () => postgres({ db: onPostgresJs({ client: sql }) }),
  'a promise pool of mysql2': () => mysql({ db: onMysql({ client: pool.promise() }) }),
  'a callback pool of mysql2': () => mysql({ db: onMysql({ client: pool }) }),
})) {
  test(`Drizzle on ${name} is accepted`, () => {
    expect(() => createInbox({ database: database() as never, consumer: 'c' })).not.toThrow()
  })
}

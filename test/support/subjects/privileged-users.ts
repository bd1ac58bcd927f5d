import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { createPool } from 'mysql2'
import { createConnection } from 'mysql2/promise'
import { Client, Pool } from 'pg'
import { afterAll, beforeAll } from 'vitest'
import type { ConnectedDatabase, TransactionHandle } from '@txbox/core'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { statementsOf } from '../engines/migrations.ts'
import type { OutboxTarget } from '../engines/outbox-target.ts'
import type { Target } from '../engines/target.ts'

export const ROLES = ['app', 'local', 'relay', 'gc', 'operator', 'viewer'] as const
export type Role = (typeof ROLES)[number]

const NAMES = /\btxbox_(app|local|relay|gc|operator|viewer)\b/g

/** Users with the privileges of docs/privileges and no others. */
export class PrivilegedUsers {
  readonly #target: Target
  readonly #outbox: OutboxTarget
  readonly #onPostgres: boolean
  /** Roles are the server's, not the database's: others may test at the same time. */
  readonly mark = randomBytes(4).toString('hex')
  readonly #ends: (() => Promise<unknown>)[] = []

  constructor(target: Target, outbox: OutboxTarget) {
    this.#target = target
    this.#outbox = outbox
    this.#onPostgres = target.engine === 'postgres'
  }

  nameOf(role: string): string {
    return `txbox_${role}_${this.mark}`
  }

  /** The file of docs/privileges. */
  file(): string {
    const folder = path.join(import.meta.dirname, '../../../docs/privileges')
    return readFileSync(path.join(folder, this.#onPostgres ? 'postgres.sql' : 'mysql.sql'), 'utf8')
  }

  /** Runs the file with other names of roles. */
  async run(nameOf: (role: string) => string, change: (sql: string) => string): Promise<void> {
    const sql = this.file()
      .replaceAll(/^\s*--.*$/gm, '')
      .replaceAll(NAMES, (_, role: string) => nameOf(role))
    if (this.#onPostgres) await this.#target.sql(change(sql))
    else for (const statement of statementsOf(change(sql))) await this.#target.sql(statement)
  }

  /** Makes users who may log in, and who may write effects as a service does. */
  async create(): Promise<void> {
    if (this.#onPostgres) {
      await this.run(
        (role) => this.nameOf(role),
        (sql) => sql.replace('nologin', "login password ''x''"),
      )
    } else {
      await this.run(
        (role) => `'${this.nameOf(role)}'@'%'`,
        (sql) => sql.replace('create role', 'create user'),
      )
    }
    for (const user of ['app', 'local'].map((role) => this.nameOf(role))) {
      if (this.#onPostgres) {
        await this.#target.sql(
          `grant insert on effects to ${user}; grant usage on sequence effects_seq_seq to ${user}`,
        )
      } else await this.#target.sql(`grant insert on effects to '${user}'@'%'`)
    }
  }

  async drop(): Promise<void> {
    for (const end of this.#ends) await end()
    for (const role of ROLES) {
      const name = this.nameOf(role)
      if (this.#onPostgres) await this.#target.sql(`drop owned by ${name}; drop role ${name}`)
      else await this.#target.sql(`drop user '${name}'@'%'`)
    }
  }

  /** One statement of a person with these rights. */
  async sqlAs(role: Role, text: string): Promise<readonly unknown[]> {
    if (this.#onPostgres) {
      const client = new Client({ connectionString: this.#urlOf(role) })
      await client.connect()
      try {
        return (await client.query(text)).rows
      } finally {
        await client.end()
      }
    }
    const connection = await createConnection(this.#urlOf(role))
    try {
      const [rows] = await connection.query(text)
      return rows as unknown[]
    } finally {
      await connection.end()
    }
  }

  as(role: Role): ConnectedDatabase<TransactionHandle> {
    if (this.#onPostgres) {
      const db = new Pool({ connectionString: this.#urlOf(role), max: 5 })
      this.#ends.push(() => db.end())
      return postgres({ db }) as unknown as ConnectedDatabase<TransactionHandle>
    }
    const db = createPool({ uri: this.#urlOf(role), connectionLimit: 5 }).promise()
    this.#ends.push(() => db.end())
    return mysql({ db }) as unknown as ConnectedDatabase<TransactionHandle>
  }

  #urlOf(role: Role): string {
    const url = new URL(this.#outbox.url())
    url.username = this.nameOf(role)
    url.password = this.#onPostgres ? 'x' : ''
    return url.href
  }
}

export function usePrivilegedUsers(target: Target, outbox: OutboxTarget): PrivilegedUsers {
  const users = new PrivilegedUsers(target, outbox)
  beforeAll(() => users.create())
  afterAll(() => users.drop())
  return users
}

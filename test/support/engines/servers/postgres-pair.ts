import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { Proxy } from '../../worlds/proxy.ts'
import { until } from '../../worlds/until.ts'
import { freePort } from './free-port.ts'
import type { KeptProcess } from './kept-process.ts'

import { PostgresProgram, queryPostgres } from './postgres-program.ts'

/** A PostgreSQL primary and a standby that follows it asynchronously, behind one TCP address. */
export class PostgresPair {
  readonly #folder: string
  readonly #primary: Server
  readonly #standby: Server
  /** Between the standby and the primary. */
  readonly #link: Proxy
  readonly #proxy: Proxy
  readonly #target: { host: string; port: number }

  private constructor(
    folder: string,
    primary: Server,
    standby: Server,
    link: Proxy,
    proxy: Proxy,
    target: Target,
  ) {
    this.#folder = folder
    this.#primary = primary
    this.#standby = standby
    this.#link = link
    this.#proxy = proxy
    this.#target = target
  }

  static async start(): Promise<PostgresPair> {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-postgres-pair-'))
    chmodSync(folder, 0o755)
    const program = PostgresProgram.find(folder)
    program.own(folder)
    const [data, copy] = [path.join(folder, 'primary'), path.join(folder, 'standby')]
    await program.initialise(data)
    // A copy from before the first start: all later data comes by replication.
    await program.copy(data, copy)
    const start = async (folder: string, settings: readonly string[]): Promise<Server> => {
      const port = await freePort()
      return { port, process: await program.start(folder, port, settings) }
    }
    const primary = await start(data, [])
    const link = await Proxy.to({ host: '127.0.0.1', port: primary.port })
    writeFileSync(path.join(copy, 'standby.signal'), '')
    const standby = await start(copy, [
      `primary_conninfo=host=127.0.0.1 port=${link.address.port} user=postgres`,
      'wal_retrieve_retry_interval=100ms',
    ])
    const target = { host: '127.0.0.1', port: primary.port }
    return new PostgresPair(folder, primary, standby, link, await Proxy.to(target), target)
  }

  /** The URL of the current primary. */
  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.#proxy.address.port}/postgres`
  }

  /** Resolves when the standby has all rows, and lets it fall behind from then on. */
  async fallBehind(): Promise<void> {
    const [row] = await queryPostgres(this.#primary.port, 'select pg_current_wal_lsn()::text as at')
    const replayed = async (): Promise<boolean> => {
      const [there] = await queryPostgres(
        this.#standby.port,
        `select pg_last_wal_replay_lsn() >= '${String(row?.['at'])}'::pg_lsn as it`,
      )
      return there!['it'] === true
    }
    await until(replayed, () => 'the standby has everything')
    this.#link.refuse()
  }

  /** Stops the primary; the standby takes its place at the same address. Rows that the standby does not have are lost. */
  async failOver(): Promise<void> {
    await this.#primary.process.stop()
    await queryPostgres(this.#standby.port, 'select pg_promote(true, 30)')
    this.#target.port = this.#standby.port
    this.#proxy.cut()
  }

  async close(): Promise<void> {
    await this.#proxy.close()
    await this.#link.close()
    for (const server of [this.#primary, this.#standby]) await server.process.stop()
    await rm(this.#folder, { recursive: true, force: true })
  }
}

type Target = { host: string; port: number }

interface Server {
  readonly port: number
  readonly process: KeptProcess
}

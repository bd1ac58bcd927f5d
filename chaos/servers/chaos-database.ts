import { rm } from 'node:fs/promises'
import path from 'node:path'
import { freePort } from '../../test/support/engines/servers/free-port.ts'
import type { KeptProcess } from '../../test/support/engines/servers/kept-process.ts'
import { until } from '../../test/support/worlds/until.ts'
import { startFaultyProxy, type FaultyProxy } from '../network/faulty-proxy.ts'
import type { DatabaseEngine, EngineName, ServerPlace, ServerRole } from './database-engine.ts'
import { GuardedFolder } from './guarded-folder.ts'
import { MysqlEngine } from './mysql-engine.ts'
import { PostgresEngine } from './postgres-engine.ts'

const CATCH_UP_LIMIT_MS = 60_000

/** A primary that clients reach at one TCP address, and a standby that follows it asynchronously. */
export interface ChaosDatabase {
  readonly engine: EngineName
  /** The address for clients: one TCP address behind `proxy`, which survives restarts and failovers. */
  readonly url: string
  /**
   * The address of the primary of now past the proxy, as an administrator: for the checker, and for faults made by SQL.
   * A full connection limit of the clients does not keep it out.
   */
  directUrl(): string
  readonly proxy: FaultyProxy
  /** Stops the primary at once (SIGKILL; PostgreSQL: an immediate shutdown) and starts it again. Loses nothing. */
  restart(): Promise<void>
  /** Resolves when the standby has all earlier commits; from then on the standby falls behind. */
  holdReplication(): Promise<void>
  /** The standby catches up again: for a run that holds replication without a failover. */
  resumeReplication(): Promise<void>
  /**
   * Kills the primary and promotes the standby with what it has. Resolves when the new primary takes writes and the
   * former one is up beside it; clients reach the new primary through `url` before that. A new standby is built from
   * the data of the promoted one, and starts in the background.
   */
  failOver(): Promise<FormerPrimary>
  /** Ends all servers and removes their data. */
  stop(): Promise<void>
}

export interface FormerPrimary {
  /** The former primary, read-only: it shows what the failover lost. No client reaches it by `url`. */
  readonly formerUrl: string
  /** Ends the former primary and removes its data. */
  readonly discardFormer: () => Promise<void>
}

/**
 * Starts a primary and a standby from the programs of this machine. They end with this process, however that ends.
 *
 * @param options.folder the folder in which a folder for the servers' data is created, which `stop` removes
 * @param options.maxConnections how many connections clients can have
 * @throws {Error} when a server program is missing or does not start
 */
export async function startChaosDatabase(
  engine: EngineName,
  options: { readonly folder: string; readonly maxConnections: number },
): Promise<ChaosDatabase> {
  const folder = GuardedFolder.create(options.folder, engine)
  const { maxConnections } = options
  try {
    const driver =
      engine === 'postgres'
        ? new PostgresEngine(folder.path, maxConnections)
        : await MysqlEngine.find(engine, maxConnections)
    driver.own(folder.path)
    return await DatabasePair.start(driver, folder)
  } catch (error) {
    await folder.remove()
    throw error
  }
}

interface Server {
  readonly place: ServerPlace
  process: KeptProcess
}

class DatabasePair implements ChaosDatabase {
  readonly proxy: FaultyProxy
  readonly #engine: DatabaseEngine
  readonly #folder: GuardedFolder
  /** Between the standby and the primary. */
  readonly #link: FaultyProxy
  readonly #servers = new Set<Server>()
  #primary!: Server
  #standby!: Promise<Server>
  #count = 0
  /** Failovers and restarts run one after the other. */
  #turn: Promise<unknown> = Promise.resolve()

  private constructor(engine: DatabaseEngine, folder: GuardedFolder, proxy: FaultyProxy, link: FaultyProxy) {
    this.#engine = engine
    this.#folder = folder
    this.proxy = proxy
    this.#link = link
  }

  static async start(engine: DatabaseEngine, folder: GuardedFolder): Promise<DatabasePair> {
    const pair = new DatabasePair(engine, folder, await startFaultyProxy(0), await startFaultyProxy(0))
    try {
      await pair.#startBoth()
      return pair
    } catch (error) {
      await pair.#end()
      throw error
    }
  }

  get engine(): EngineName {
    return this.#engine.name
  }

  get url(): string {
    return this.#engine.clientUrl(this.proxy.port)
  }

  directUrl(): string {
    return this.#engine.adminUrl(this.#primary.place)
  }

  restart(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#primary.process.stop()
      this.#primary.process = await this.#engine.start(this.#primary.place, { name: 'primary' })
    })
  }

  holdReplication(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#catchUp()
      this.#link.refuse(true)
      this.#link.cutAll()
    })
  }

  resumeReplication(): Promise<void> {
    return this.#inTurn(async () => {
      this.#link.refuse(false)
      await this.#catchUp()
    })
  }

  failOver(): Promise<FormerPrimary> {
    return this.#inTurn(async () => {
      const promoted = await this.#standby
      const former = this.#primary
      await this.#engine.prune(promoted.place)
      await former.process.stop()
      await promoted.process.stop()
      // The server is stopped, so a copy of its data folder is a standby with the same data.
      const next = await this.#newPlace()
      await this.#engine.copy(promoted.place.data, next.data)
      const [visibleFormer] = await Promise.all([this.#showFormer(former), this.#promote(promoted)])
      this.#standby = this.#startStandby(next)
      // The next statement reports the failure.
      this.#standby.catch(() => undefined)
      return {
        // Of a client: MariaDB lets administrators write to a server that is read-only.
        formerUrl: this.#engine.clientUrl(visibleFormer.place.port),
        discardFormer: () => this.#discard(visibleFormer),
      }
    })
  }

  async stop(): Promise<void> {
    await this.#inTurn(async () => {
      await this.#end()
      await this.#folder.remove()
    })
  }

  async #startBoth(): Promise<void> {
    const [first, second] = [await this.#newPlace(), await this.#newPlace()]
    await this.#engine.initialise(first.data)
    await this.#engine.copy(first.data, second.data)
    this.#link.retarget(first.adminPort)
    this.#standby = this.#startStandby(second)
    this.#standby.catch(() => undefined)
    this.#primary = await this.#startServer(first, { name: 'primary' })
    this.proxy.retarget(first.port)
    await this.#engine.prepare(first)
    await this.#catchUp()
  }

  /** A standby that has everything up to now. */
  async #catchUp(): Promise<void> {
    const { place, process } = await this.#standby
    const position = await this.#engine.position(this.#primary.place)
    await until(
      () => this.#engine.hasReached(place, position),
      async () =>
        `the standby has come to ${position}; ${await this.#engine.replication(place)}; it says: ${process.lastWords}`,
      CATCH_UP_LIMIT_MS,
    )
  }

  async #promote(promoted: Server): Promise<void> {
    this.#link.refuse(true)
    this.#link.cutAll()
    promoted.process = await this.#engine.start(promoted.place, this.#standbyRole)
    await this.#engine.promote(promoted.place)
    this.#primary = promoted
    this.proxy.cutAll()
    this.proxy.retarget(promoted.place.port)
    this.#link.retarget(promoted.place.adminPort)
    this.#link.refuse(false)
  }

  async #startStandby(place: ServerPlace): Promise<Server> {
    const standby = await this.#startServer(place, this.#standbyRole)
    await this.#engine.follow(place, this.#link.port)
    return standby
  }

  get #standbyRole(): ServerRole {
    return { name: 'standby', linkPort: this.#link.port }
  }

  /** The new server has other ports, so that a client with the old ports finds no server. */
  async #showFormer(former: Server): Promise<Server> {
    this.#servers.delete(former)
    const place = { ...former.place, ...(await this.#newPorts()) }
    return this.#startServer(place, { name: 'former' })
  }

  async #discard(former: Server): Promise<void> {
    await former.process.stop()
    this.#servers.delete(former)
    await rm(former.place.data, { recursive: true, force: true, maxRetries: 5 })
  }

  async #startServer(place: ServerPlace, role: ServerRole): Promise<Server> {
    const server = { place, process: await this.#engine.start(place, role) }
    this.#servers.add(server)
    return server
  }

  async #newPlace(): Promise<ServerPlace> {
    this.#count += 1
    const data = path.join(this.#folder.path, `server-${this.#count}`)
    return { data, number: this.#count, ...(await this.#newPorts()) }
  }

  async #newPorts(): Promise<{ port: number; adminPort: number }> {
    const port = await freePort()
    return { port, adminPort: this.#engine.name === 'postgres' ? port : await freePort() }
  }

  async #end(): Promise<void> {
    await Promise.allSettled([this.#standby])
    await Promise.all([this.proxy.close(), this.#link.close()])
    await Promise.all([...this.#servers].map(({ process }) => process.stop()))
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work)
    this.#turn = done.catch(() => undefined)
    return done
  }
}

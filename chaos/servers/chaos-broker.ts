import { execFile } from 'node:child_process'
import { chownSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import amqp, { type ChannelModel } from 'amqplib'
import { freePort } from '../../test/support/engines/servers/free-port.ts'
import { KeptProcess } from '../../test/support/engines/servers/kept-process.ts'
import {
  findRabbitmqProgram,
  type RabbitmqProgram,
} from '../../test/support/engines/servers/rabbitmq-program.ts'
import { serverUser } from '../../test/support/engines/servers/server-user.ts'
import { until } from '../../test/support/worlds/until.ts'
import { startFaultyProxy, type FaultyProxy } from '../network/faulty-proxy.ts'
import { GuardedFolder } from './guarded-folder.ts'

const START_LIMIT_MS = 90_000

/** A RabbitMQ for this run only, which clients reach at one TCP address. */
export interface ChaosBroker {
  /** The address for clients: one TCP address behind `proxy`, which survives restarts. */
  readonly url: string
  /** The address that bypasses the proxy: for the checker, and for declaring queues. */
  readonly directUrl: string
  readonly proxy: FaultyProxy
  /**
   * Kills the broker (SIGKILL) and starts it again; limits of queues are lifted for that moment.
   * Persistent messages in durable queues that it confirmed stay.
   */
  restart(): Promise<void>
  /** The queue accepts no further messages (length 0, `reject-publish`): the broker refuses them. Its present messages stay. */
  limitQueue(queue: string, on: boolean): Promise<void>
  /** Takes the bindings of all exchanges away, so that nothing can be routed, and later restores them. */
  removeBindings(on: boolean): Promise<void>
  /** Creates a user with these permissions, each a pattern of names. @returns the user's address, without the proxy */
  addUser(name: string, permissions: BrokerPermissions): Promise<string>
  /** Ends the broker and removes its data. */
  stop(): Promise<void>
}

export interface BrokerPermissions {
  readonly configure: string
  readonly write: string
  readonly read: string
}

/**
 * Starts a RabbitMQ from the program of this machine. It ends with this process, however the process ends.
 *
 * @param options.folder the folder in which a folder for its data is created, which `stop` removes
 * @throws {Error} when the program is missing or does not start
 */
export async function startChaosBroker(options: { readonly folder: string }): Promise<ChaosBroker> {
  const program = findRabbitmqProgram()
  if (program === undefined)
    throw new Error('RabbitMQ is not found: install it, or name its program by TXBOX_RABBITMQ_SERVER.')
  return RabbitmqNode.start(program, GuardedFolder.create(options.folder, 'rabbitmq'))
}

interface Binding {
  readonly source: string
  readonly queue: string
  readonly key: string
  readonly arguments: Readonly<Record<string, unknown>>
}

class RabbitmqNode implements ChaosBroker {
  readonly proxy: FaultyProxy
  readonly directUrl: string
  readonly #program: RabbitmqProgram
  readonly #folder: GuardedFolder
  readonly #user = serverUser('rabbitmq')
  readonly #environment: NodeJS.ProcessEnv
  /** A separate name server of Erlang, because that of the machine may belong to another user or outlive this run. */
  #names: KeptProcess | undefined
  #node: KeptProcess | undefined
  readonly #limited = new Set<string>()
  #removed: readonly Binding[] = []
  #turn: Promise<unknown> = Promise.resolve()

  private constructor(
    program: RabbitmqProgram,
    folder: GuardedFolder,
    proxy: FaultyProxy,
    ports: { amqp: number; names: number; distribution: number },
  ) {
    this.#program = program
    this.#folder = folder
    this.proxy = proxy
    this.directUrl = `amqp://guest:guest@127.0.0.1:${ports.amqp}`
    const at = (name: string): string => path.join(folder.path, name)
    this.#environment = {
      PATH: process.env['PATH'],
      LANG: 'C.UTF-8',
      HOME: folder.path,
      ERL_EPMD_PORT: String(ports.names),
      ERL_EPMD_ADDRESS: '127.0.0.1',
      RABBITMQ_NODENAME: `txbox-chaos-${ports.amqp}@localhost`,
      RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
      RABBITMQ_NODE_PORT: String(ports.amqp),
      RABBITMQ_DIST_PORT: String(ports.distribution),
      RABBITMQ_MNESIA_BASE: at('data'),
      RABBITMQ_LOG_BASE: at('log'),
      RABBITMQ_GENERATED_CONFIG_DIR: at('config'),
      RABBITMQ_FEATURE_FLAGS_FILE: at('feature-flags'),
      RABBITMQ_PID_FILE: at('pid'),
      RABBITMQ_ENABLED_PLUGINS_FILE: at('enabled-plugins'),
      RABBITMQ_CONFIG_FILE: at('rabbitmq'),
      RABBITMQ_CONF_ENV_FILE: '/dev/null',
      // The start script then replaces itself by the broker, so that a signal reaches the broker.
      RABBITMQ_ALLOW_INPUT: 'true',
      RABBITMQ_SERVER_START_ARGS: '-noinput',
    }
  }

  static async start(program: RabbitmqProgram, folder: GuardedFolder): Promise<RabbitmqNode> {
    const ports = { amqp: await freePort(), names: await freePort(), distribution: await freePort() }
    const proxy = await startFaultyProxy(ports.amqp)
    const broker = new RabbitmqNode(program, folder, proxy, ports)
    try {
      await broker.#prepare()
      await broker.#startNode()
      await broker.#limit('never full', '', {})
      return broker
    } catch (error) {
      await broker.stop()
      throw error
    }
  }

  get url(): string {
    return `amqp://guest:guest@127.0.0.1:${this.proxy.port}`
  }

  restart(): Promise<void> {
    return this.#inTurn(async () => {
      // A queue that starts with a limit has `drop-head` again for a moment, and loses what it has.
      for (const queue of this.#limited) await this.#lift(queue)
      await this.#node?.stop()
      await this.#startNode()
      for (const queue of this.#limited) await this.#refuse(queue)
    })
  }

  limitQueue(queue: string, on: boolean): Promise<void> {
    return this.#inTurn(async () => {
      if (on) await this.#refuse(queue)
      else await this.#lift(queue)
      if (on) this.#limited.add(queue)
      else this.#limited.delete(queue)
    })
  }

  removeBindings(on: boolean): Promise<void> {
    return this.#inTurn(async () => {
      const bindings = on ? await this.#bindings() : this.#removed
      const connection = await amqp.connect(this.directUrl)
      try {
        for (const binding of bindings) await bind(connection, binding, !on)
      } finally {
        await connection.close()
      }
      this.#removed = on ? [...this.#removed, ...bindings] : []
    })
  }

  async addUser(name: string, { configure, write, read }: BrokerPermissions): Promise<string> {
    await this.#control(['add_user', name, 'secret'])
    await this.#control(['set_permissions', name, configure, write, read])
    const url = new URL(this.directUrl)
    url.username = name
    url.password = 'secret'
    return url.href
  }

  async stop(): Promise<void> {
    await this.#inTurn(async () => {
      await this.proxy.close()
      await this.#node?.stop()
      await this.#names?.stop()
      await this.#folder.remove()
    })
  }

  async #prepare(): Promise<void> {
    const folder = this.#folder.path
    await writeFile(path.join(folder, 'enabled-plugins'), '[].\n')
    await writeFile(path.join(folder, 'rabbitmq.conf'), 'log.console = false\n')
    await mkdir(path.join(folder, 'log'))
    if (this.#user !== undefined) {
      for (const owned of ['', 'log']) chownSync(path.join(folder, owned), this.#user.uid, this.#user.gid)
    }
    this.#names = await this.#keep([this.#program.epmd], 'names.log')
  }

  async #startNode(): Promise<void> {
    const node = await this.#keep([this.#program.server], 'start.log')
    this.#node = node
    const answers = async (): Promise<boolean> => {
      try {
        const connection = await amqp.connect(this.directUrl, { timeout: 2000 })
        await connection.close()
        return true
      } catch {
        return false
      }
    }
    await until(answers, () => `RabbitMQ answers; it says: ${node.lastWords}`, START_LIMIT_MS)
    // It answers before it has applied the policies, and accepts commands.
    await this.#control(['await_startup'])
  }

  async #refuse(queue: string): Promise<void> {
    const pattern = `^${queue.replaceAll(/[^\w-]/g, String.raw`\$&`)}$`
    await this.#limit(`full ${queue}`, pattern, { 'max-length': 0 }, 1)
  }

  async #lift(queue: string): Promise<void> {
    await this.#control(['clear_policy', `full ${queue}`])
  }

  /**
   * All queues have `reject-publish` from the start: with its default, `drop-head`, a queue that gets a limit throws away
   * the messages that it has, before it learns that it should refuse new ones instead.
   */
  async #limit(name: string, pattern: string, limit: object, priority = 0): Promise<void> {
    const policy = JSON.stringify({ ...limit, overflow: 'reject-publish' })
    const options = ['--apply-to', 'queues', '--priority', String(priority)]
    await this.#control(['set_policy', ...options, name, pattern, policy])
  }

  #keep(command: readonly string[], log: string): Promise<KeptProcess> {
    const folder = this.#folder.path
    return KeptProcess.start({
      command,
      folder,
      log: path.join(folder, log),
      endSignal: 'SIGKILL',
      user: this.#user,
      environment: this.#environment,
    })
  }

  async #bindings(): Promise<Binding[]> {
    const columns = ['source_name', 'destination_name', 'destination_kind', 'routing_key', 'arguments']
    const listed = await this.#control(['list_bindings', '--formatter', 'json', ...columns])
    return (JSON.parse(listed) as Record<string, never>[])
      .filter((row) => row['source_name'] !== '' && row['destination_kind'] === 'queue')
      .map((row) => ({
        source: row['source_name']!,
        queue: row['destination_name']!,
        key: row['routing_key']!,
        arguments: row['arguments']!,
      }))
  }

  async #control(args: readonly string[]): Promise<string> {
    const options = { ...this.#user, cwd: this.#folder.path, env: this.#environment }
    const { stdout } = await promisify(execFile)(this.#program.control, ['--quiet', ...args], options)
    return stdout
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work)
    this.#turn = done.catch(() => undefined)
    return done
  }
}

async function bind(connection: ChannelModel, binding: Binding, on: boolean): Promise<void> {
  const channel = await connection.createChannel()
  const { queue, source, key, arguments: args } = binding
  await (on ? channel.bindQueue(queue, source, key, args) : channel.unbindQueue(queue, source, key, args))
  await channel.close()
}

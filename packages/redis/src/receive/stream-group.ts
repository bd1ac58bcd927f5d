import { BrokerUnavailableError } from '@txbox/core'
import { SharedConnection } from '@txbox/core/internal'
import type { CommandArgument } from '../connection/command-port.ts'
import type { ConnectSettings } from '../connection/connect-options.ts'
import { connectRedis } from '../connection/connect-redis.ts'
import type { RedisConnection } from '../connection/redis-connection.ts'
import { RedisRefusal } from '../connection/redis-refusal.ts'
import { runScript, type Script } from '../connection/script.ts'
import { entryFields, type EntryFields } from './from-redis.ts'
import { ACCEPT, CLAIM, EXTEND, LEAVE, PUT_BACK, REJECT, TIDY } from './group-scripts.ts'

/** The consumer under whose name deliveries wait for another attempt. */
const HOLDER = 'txbox:returned'

/** How the names of consumers begin that have no name of their own. */
export const NAME_PREFIX = 'txbox-'

/** Consumers without a name of their own are removed after an hour without a sign. */
const IDLE_MS = 3_600_000

/** How many deliveries that others have left a claim looks for at least. Redis looks at ten times as many for them. */
const SCANNED = '100'

/** A group of a stream, and the consumer that receives from it. */
export interface GroupSettings {
  readonly connection: ConnectSettings
  readonly stream: string
  readonly group: string
  readonly consumer: string
  /** Whether the name of the consumer is used by nobody else, and not after it. */
  readonly isOwnName: boolean
  readonly leaseMs: number
  readonly deadLetterStream: string
  readonly deletesAccepted: boolean
}

/** An entry, and how often it was delivered, with this delivery. */
export interface ReceivedEntry extends EntryFields {
  readonly deliveries: number
}

/** Whether a delivery is still this consumer's; `'gone'`: it was, and its entry was deleted, so that Redis cannot deliver it again. */
export type Standing = 'lost' | 'ours' | 'gone'

const STANDINGS: readonly Standing[] = ['lost', 'ours', 'gone']

/** The entries that a claim has found. */
interface Claimed {
  readonly entries: readonly ReceivedEntry[]
  /** The ids of entries that were deleted before they were handled. */
  readonly gone: readonly string[]
  readonly cursor: string
}

/** The commands for one group. Reads wait at the server, so they have a connection of their own. */
export class StreamGroup {
  readonly #settings: GroupSettings
  readonly #commands: SharedConnection<RedisConnection>
  readonly #reads: SharedConnection<RedisConnection>
  readonly #closing = new AbortController()
  /** The number by which the server knows the connection that reads. */
  #readerId: string | undefined
  #isGone = false

  constructor(settings: GroupSettings) {
    this.#settings = settings
    const { connection, stream } = settings
    const closed = (): BrokerUnavailableError =>
      new BrokerUnavailableError(`The consumer of stream '${stream}' in ${connection.name} has disconnected.`)
    const open = (lifetime: AbortController): Promise<RedisConnection> =>
      connectRedis(connection, lifetime, 'Receiving from')
    this.#commands = new SharedConnection(open, closed)
    this.#reads = new SharedConnection(async (lifetime) => {
      const reads = await open(lifetime)
      // If the user may not ask, a read that is not wanted any more ends when its time is over.
      this.#readerId = await reads.send(['CLIENT', 'ID']).then(String, () => undefined)
      return reads
    }, closed)
  }

  /** Whether the group was deleted, or its stream. */
  get isGone(): boolean {
    return this.#isGone
  }

  /** The name of a key of this group, in the same slot of a cluster as the stream. */
  static keyBeside(stream: string, group: string, name: string): string {
    const tagged = /\{[^}]+\}/.test(stream) ? stream : `{${stream}}`
    return `${tagged}:${group}:${name}`
  }

  /**
   * Creates the group, if it does not exist.
   *
   * @param from the id after which the group begins. `undefined`: the group must exist.
   */
  async prepare(from: '0' | '$' | undefined): Promise<void> {
    const { stream, group } = this.#settings
    if (from !== undefined) {
      const create = ['XGROUP', 'CREATE', stream, group, from, 'MKSTREAM']
      await this.#send(create).catch((error: unknown) => {
        if (!(error instanceof RedisRefusal) || error.word !== 'BUSYGROUP') throw this.#unusable(error)
      })
    }
    await this.#run(TIDY, [stream], [group, NAME_PREFIX, String(IDLE_MS)])
  }

  /** Returns the policy by which the server may evict streams; `undefined` if the server may not evict them, or does not answer. */
  async evicts(): Promise<string | undefined> {
    const answer = await this.#send(['CONFIG', 'GET', 'maxmemory-policy']).catch((error: unknown) => {
      if (error instanceof RedisRefusal) return []
      throw error
    })
    const policy = Array.isArray(answer) ? String(answer[1] ?? '') : ''
    return policy.startsWith('allkeys-') ? policy : undefined
  }

  /** Waits at the server for new entries, for at most `waitMs`. */
  async read(limit: number, waitMs: number): Promise<readonly ReceivedEntry[]> {
    const { stream, group, consumer } = this.#settings
    const reads = await this.#reads.get(this.#closing.signal)
    const command = ['XREADGROUP', 'GROUP', group, consumer, 'COUNT', String(limit)]
    try {
      const answer = await reads.send([
        ...command,
        'BLOCK',
        String(Math.ceil(waitMs)),
        'STREAMS',
        stream,
        '>',
      ])
      return entriesIn(answer).map((entry) => received(entry, 1))
    } catch (error) {
      // The answer to CLIENT UNBLOCK … ERROR, which others may send, too.
      if (error instanceof RedisRefusal && error.word === 'UNBLOCKED') return []
      throw this.#unusable(error)
    }
  }

  /** Ends a read that waits at the server. If that fails, the read ends when its time is over. */
  unblock(): void {
    if (this.#readerId === undefined) return
    this.#send(['CLIENT', 'UNBLOCK', this.#readerId]).catch(() => undefined)
  }

  async claim(limit: number, cursor: string): Promise<Claimed> {
    const { group, consumer, leaseMs } = this.#settings
    const args = [group, consumer, HOLDER, String(Math.ceil(leaseMs)), String(limit), cursor, SCANNED]
    const [entries, gone, next] = (await this.#run(CLAIM, this.#keys, args)) as [
      [Buffer, Buffer[], unknown][],
      Buffer[],
      Buffer,
    ]
    return {
      entries: entries.map(([id, fields, count]) => received([id, fields], Number(count))),
      gone: gone.map(String),
      cursor: String(next),
    }
  }

  async accept(ids: readonly string[]): Promise<readonly Standing[]> {
    const { stream, group, consumer } = this.#settings
    return standings(await this.#run(ACCEPT, [stream], [group, consumer, this.#deletes, ...ids]))
  }

  async extend(ids: readonly string[]): Promise<readonly Standing[]> {
    const { stream, group, consumer } = this.#settings
    return standings(await this.#run(EXTEND, [stream], [group, consumer, ...ids]))
  }

  /** Lets an entry be delivered again. @param deliveries how many count up to now. */
  async putBack(
    id: string,
    { deliveries, delayMs }: { deliveries: number; delayMs: number },
  ): Promise<Standing> {
    const { group, consumer } = this.#settings
    const args = [group, consumer, HOLDER, id, String(deliveries), String(Math.ceil(delayMs))]
    return standing(await this.#run(PUT_BACK, this.#keys, args))
  }

  /** @throws {RedisRefusal} when Redis does not take the dead letter. */
  async reject(id: string, fields: readonly CommandArgument[], isGone: boolean): Promise<Standing> {
    const { stream, group, consumer, deadLetterStream } = this.#settings
    const args = [group, consumer, id, this.#deletes, isGone ? '1' : '0', ...fields]
    const commands = await this.#commands.get(this.#closing.signal)
    return standing(await runScript(commands, REJECT, [stream, deadLetterStream], args))
  }

  /** Returns all deliveries to the group. @returns the ids of entries that were deleted before they were handled. */
  async leave(): Promise<readonly string[]> {
    const { group, consumer, isOwnName } = this.#settings
    const gone = await this.#run(LEAVE, this.#keys, [group, consumer, HOLDER, isOwnName ? '1' : '0'])
    return Array.isArray(gone) ? gone.map(String) : []
  }

  async close(): Promise<void> {
    this.#closing.abort(new BrokerUnavailableError('The consumer disconnects.'))
    await Promise.all([this.#commands.close(), this.#reads.close()])
  }

  get #keys(): readonly string[] {
    const { stream, group } = this.#settings
    return [stream, StreamGroup.keyBeside(stream, group, 'due')]
  }

  get #deletes(): string {
    return this.#settings.deletesAccepted ? '1' : '0'
  }

  async #send(command: readonly CommandArgument[]): Promise<unknown> {
    const commands = await this.#commands.get(this.#closing.signal)
    return await commands.send(command)
  }

  async #run(script: Script, keys: readonly string[], args: readonly CommandArgument[]): Promise<unknown> {
    const commands = await this.#commands.get(this.#closing.signal)
    try {
      return await runScript(commands, script, keys, args)
    } catch (error) {
      throw this.#unusable(error)
    }
  }

  #unusable(error: unknown): unknown {
    if (!(error instanceof RedisRefusal)) return error
    const { stream, group, connection } = this.#settings
    if (error.word === 'NOGROUP') this.#isGone = true
    return new BrokerUnavailableError(
      `The consumer of stream '${stream}', group '${group}', in ${connection.name} cannot go on: ${error.message}.`,
    )
  }
}

function received(entry: unknown, deliveries: number): ReceivedEntry {
  const { entryId, fields } = entryFields(entry)
  return { entryId, fields, deliveries }
}

/** The entries of the one stream that was read: RESP 2 answers with a list of pairs, RESP 3 with a map. */
function entriesIn(answer: unknown): readonly unknown[] {
  if (answer === null || answer === undefined) return []
  const values: readonly unknown[] = Array.isArray(answer)
    ? Array.isArray(answer[0])
      ? (answer[0] as unknown[])
      : (answer as unknown[])
    : answer instanceof Map
      ? [...(answer as Map<unknown, unknown>)].flat()
      : Object.entries(answer).flat()
  const [, entries] = values
  return Array.isArray(entries) ? (entries as unknown[]) : []
}

function standings(answer: unknown): readonly Standing[] {
  return Array.isArray(answer) ? (answer as unknown[]).map(standing) : []
}

function standing(answer: unknown): Standing {
  return STANDINGS[Number(answer)] ?? 'lost'
}

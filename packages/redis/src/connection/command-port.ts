import { propertyOf } from '@txbox/core/internal'

export type CommandArgument = string | Buffer

/** Sends commands to Redis, by whichever client. */
export interface CommandPort {
  /** Resolves with the answer, in which texts are bytes. Commands of one turn of the event loop go out in their order. */
  send(args: readonly CommandArgument[]): Promise<unknown>
  /** Ends the connection at once. Does nothing to the connection of a client that the user has passed. */
  end(): void
}

/** The part of a client of node-redis that is used. */
export interface NodeRedisStreamsClient {
  sendCommand(args: readonly CommandArgument[], options?: object): Promise<unknown>
}

/** The part of a cluster client of node-redis that is used. */
export interface NodeRedisStreamsCluster {
  readonly masters: readonly unknown[]
  sendCommand(
    firstKey: CommandArgument | undefined,
    isReadonly: boolean,
    args: readonly CommandArgument[],
    options?: object,
  ): Promise<unknown>
}

/** The part of a client of ioredis that is used, of one server or of a cluster. */
export interface IoredisStreamsClient {
  callBuffer(command: string, ...args: CommandArgument[]): Promise<unknown>
}

/** A client of node-redis 5 or ioredis 5, or later. */
export type RedisStreamsClient = NodeRedisStreamsClient | NodeRedisStreamsCluster | IoredisStreamsClient

/** Bulk strings (36 is `$`) as bytes, and maps (37 is `%`) as lists of keys and values, as in RESP 2. */
const TYPES = { typeMapping: { 36: Buffer, 37: Array } }

export type ClientKind = 'node-redis' | 'node-redis cluster' | 'ioredis'

/** @returns undefined if the value is not a client. */
export function clientKind(client: unknown): ClientKind | undefined {
  if (typeof propertyOf(client, 'callBuffer') === 'function') return 'ioredis'
  if (typeof propertyOf(client, 'sendCommand') !== 'function') return undefined
  return Array.isArray(propertyOf(client, 'masters')) ? 'node-redis cluster' : 'node-redis'
}

/** Returns the port of a client. @param end ends the connection, if it is not the user's. */
export function portOf(
  client: RedisStreamsClient,
  kind: ClientKind,
  end: () => void = () => undefined,
): CommandPort {
  if (kind === 'ioredis') {
    const { send } = ioredisSender(client as IoredisStreamsClient)
    return { send, end }
  }
  if (kind === 'node-redis') {
    return { send: (args) => (client as NodeRedisStreamsClient).sendCommand(args, TYPES), end }
  }
  // A stream's key comes right after the name of its command. A command without a key may go to any server.
  return {
    send: (args) => (client as NodeRedisStreamsCluster).sendCommand(args[1], false, args, TYPES),
    end,
  }
}

function ioredisSender(client: IoredisStreamsClient): Pick<CommandPort, 'send'> {
  return {
    send: ([command, ...args]) => client.callBuffer(String(command), ...args),
  }
}

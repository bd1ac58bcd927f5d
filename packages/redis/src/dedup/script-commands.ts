import { propertyOf } from '@txbox/core/internal'
import type { Script } from '../connection/script.ts'

/** The part of a client of ioredis that is used. */
export interface IoredisClient {
  evalsha(sha: string, keys: number, ...args: string[]): Promise<unknown>
  eval(text: string, keys: number, ...args: string[]): Promise<unknown>
  call(command: string, ...args: string[]): Promise<unknown>
}

/** The part of a client of node-redis that is used. */
export interface NodeRedisClient {
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
  eval(text: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
}

/** A connected client of ioredis or node-redis, of one server, or of a cluster. */
export type RedisClient = IoredisClient | NodeRedisClient

export interface RedisCommands {
  /** Runs a script by its name, and by its text if the server does not have the script. */
  run(script: Script, key: string, args: readonly string[]): Promise<unknown>
  /** Returns the answer of each server to CONFIG GET; `undefined` stands for a client without this command. */
  config(name: string): Promise<readonly unknown[]>
}

/** @returns undefined if the value is not a client. */
export function redisCommandsOf(client: unknown): RedisCommands | undefined {
  const has = (name: string): boolean => typeof propertyOf(client, name) === 'function'
  if (!has('eval')) return undefined
  if (has('evalsha') && has('call')) return ioredisCommands(client as IoredisClient)
  return has('evalSha') ? nodeRedisCommands(client as NodeRedisClient) : undefined
}

function ioredisCommands(client: IoredisClient): RedisCommands {
  return {
    run: ({ sha, text }, key, args) =>
      byNameOrText(
        () => client.evalsha(sha, 1, key, ...args),
        () => client.eval(text, 1, key, ...args),
      ),
    async config(name) {
      const nodes: unknown = propertyOf(client, 'nodes')
      const masters =
        typeof nodes === 'function' ? (Reflect.apply(nodes, client, ['master']) as unknown) : [client]
      return Promise.all((masters as readonly IoredisClient[]).map((one) => one.call('CONFIG', 'GET', name)))
    },
  }
}

function nodeRedisCommands(client: NodeRedisClient): RedisCommands {
  return {
    run({ sha, text }, key, args) {
      const options = (): { keys: string[]; arguments: string[] } => ({ keys: [key], arguments: [...args] })
      return byNameOrText(
        () => client.evalSha(sha, options()),
        () => client.eval(text, options()),
      )
    },
    async config(name) {
      const servers = await serversOf(client)
      return Promise.all(
        servers.map(async (server): Promise<unknown> => {
          const configGet: unknown = propertyOf(server, 'configGet')
          return typeof configGet === 'function' ? Reflect.apply(configGet, server, [name]) : undefined
        }),
      )
    },
  }
}

/** Returns the clients of all servers of a cluster, or the client itself if it is the client of one server. */
async function serversOf(client: NodeRedisClient): Promise<readonly unknown[]> {
  const [masters, nodeClient] = [propertyOf(client, 'masters'), propertyOf(client, 'nodeClient')]
  if (!Array.isArray(masters) || typeof nodeClient !== 'function') return [client]
  return Promise.all(masters.map(async (node): Promise<unknown> => Reflect.apply(nodeClient, client, [node])))
}

/** A server loses its scripts when it restarts, fails over, or runs SCRIPT FLUSH; the script is then sent as text. */
async function byNameOrText(
  byName: () => Promise<unknown>,
  byText: () => Promise<unknown>,
): Promise<unknown> {
  try {
    return await byName()
  } catch (error) {
    const message = propertyOf(error, 'message')
    if (typeof message !== 'string' || !message.startsWith('NOSCRIPT')) throw error
    return byText()
  }
}

import { propertyOf } from '@txbox/core/internal'
import type { Script } from './dedup-scripts.ts'

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

/** The commands that the store needs, whatever the client is. */
export interface RedisCommands {
  /** Runs a script by its name; a server that does not know the script gets its text. */
  run(script: Script, key: string, args: readonly string[]): Promise<unknown>
  /** Returns what the server answers to CONFIG GET; undefined if the client has no such command. */
  config(name: string): Promise<unknown>
}

/** Recognizes a client by its methods. @returns undefined for anything else. */
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
    config: (name) => client.call('CONFIG', 'GET', name),
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
      const configGet: unknown = propertyOf(client, 'configGet')
      return typeof configGet === 'function'
        ? (Reflect.apply(configGet, client, [name]) as unknown)
        : undefined
    },
  }
}

/** A server forgets scripts when it restarts, fails over, or is asked to. */
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

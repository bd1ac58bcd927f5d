import { hash } from 'node:crypto'
import type { CommandArgument } from './command-port.ts'
import type { RedisConnection } from './redis-connection.ts'
import { RedisRefusal } from './redis-refusal.ts'

/** A script in Lua, which Redis runs as one command. */
export interface Script {
  readonly text: string
  readonly sha: string
}

export function script(text: string): Script {
  return { text, sha: hash('sha1', text) }
}

/**
 * Runs a script by its name, and by its text if the server does not have the script.
 *
 * @throws as `RedisConnection.send`.
 */
export async function runScript(
  connection: RedisConnection,
  { sha, text }: Script,
  keys: readonly string[],
  args: readonly CommandArgument[],
): Promise<unknown> {
  const rest = [String(keys.length), ...keys, ...args]
  try {
    return await connection.send(['EVALSHA', sha, ...rest])
  } catch (error) {
    // A server loses its scripts when it restarts, fails over, or runs SCRIPT FLUSH.
    if (!(error instanceof RedisRefusal) || error.word !== 'NOSCRIPT') throw error
    return await connection.send(['EVAL', text, ...rest])
  }
}

import { BrokerUnavailableError } from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import type { NodeRedisStreamsClient } from './command-port.ts'

/** A client that this package has created. */
export interface OwnedClient extends NodeRedisStreamsClient {
  connect(): Promise<unknown>
  destroy(): void
  on(event: string, listener: (error?: unknown) => void): unknown
}

interface ClientLibrary {
  createClient(options: object): OwnedClient
}

/** The first one has the second one in it. Both are optional: a client that the user passes needs neither of them. */
const NAMES = ['redis', '@redis/client']

let loaded: Promise<ClientLibrary> | undefined

/**
 * Loads node-redis, once.
 *
 * @throws {BrokerUnavailableError} when it is not installed; the message has the line that installs it.
 */
export function clientLibrary(): Promise<ClientLibrary> {
  loaded ??= load().catch((error: unknown) => {
    loaded = undefined
    throw error
  })
  return loaded
}

async function load(): Promise<ClientLibrary> {
  for (const name of NAMES) {
    try {
      const found: unknown = await import(name)
      const library =
        typeof propertyOf(found, 'createClient') === 'function' ? found : propertyOf(found, 'default')
      if (typeof propertyOf(library, 'createClient') === 'function') return library as ClientLibrary
    } catch (error) {
      // If the library is installed and cannot be loaded, its own error explains why.
      const code = propertyOf(error, 'code')
      if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') throw error
    }
  }
  throw new BrokerUnavailableError(
    "The option 'url' needs node-redis, which is not installed: npm install redis. Or pass a client by the option 'client'.",
  )
}

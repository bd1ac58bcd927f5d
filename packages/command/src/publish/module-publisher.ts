import path from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Publisher } from '@txbox/relay'
import { UsageError } from '../failure.ts'

/** The publisher that a file of the user exports as its default: a publisher, or a function that makes one. */
export async function modulePublisher(file: string): Promise<Publisher> {
  if (file === '') throw new UsageError('--publisher module: needs a file, such as module:./publisher.mjs')
  const loaded = (await import(pathToFileURL(path.resolve(file)).href)) as { readonly default?: unknown }
  const made: unknown = typeof loaded.default === 'function' ? await loaded.default() : loaded.default
  if (isPublisher(made)) return made
  throw new UsageError(
    "the default export of the file of --publisher module: must be a publisher, with a method 'publish', or a function that returns one",
  )
}

function isPublisher(value: unknown): value is Publisher {
  return (
    typeof value === 'object' && value !== null && typeof (value as Partial<Publisher>).publish === 'function'
  )
}

import { UsageError } from '../failure.ts'
import { shown, type PublisherUrl } from './publisher-url.ts'

export type ValueKind = 'text' | 'number' | 'flag' | 'list'

/** The values of the query by their names, as options of a package. Absent ones are left out. */
export type UrlOptions = Readonly<Record<string, string | number | boolean | readonly string[]>>

/** The options that every broker over a network has. */
export const TIMES_AND_SIZE = {
  confirmTimeoutMs: 'number',
  connectTimeoutMs: 'number',
  maxMessageBytes: 'number',
} as const

/**
 * Reads the query of `--publisher`.
 *
 * @throws {UsageError} for a name that is not known, and for a value of the wrong kind. The bounds are those of the package.
 */
export function urlOptions(
  { scheme, query }: PublisherUrl,
  known: Readonly<Record<string, ValueKind>>,
): UrlOptions {
  const options: [string, UrlOptions[string]][] = []
  for (const [name, text] of query) {
    const kind = Object.hasOwn(known, name) ? known[name] : undefined
    if (kind === undefined) {
      const names = Object.keys(known)
      const list = names.length === 0 ? 'none' : names.toSorted().join(', ')
      throw new UsageError(`--publisher ${scheme}: does not know ?${shown(name)}=; it knows: ${list}`)
    }
    options.push([name, valueOf(name, text, kind)])
  }
  return Object.fromEntries(options)
}

function valueOf(name: string, text: string, kind: ValueKind): UrlOptions[string] {
  if (kind === 'text') return text
  if (kind === 'list') return text === '' ? [] : text.split(',')
  if (kind === 'number') {
    if (/^\d{1,15}$/.test(text)) return Number(text)
    throw new UsageError(`--publisher: ?${name}= must be a whole number`)
  }
  if (text === 'true' || text === 'false') return text === 'true'
  throw new UsageError(`--publisher: ?${name}= must be true or false`)
}

/** A server that tests can use. */
export interface FoundServer {
  readonly url: string
  /** One line for the start of the run: what it is and where it comes from. No password. */
  readonly description: string
  /** Stops it, when this run has started it. */
  readonly stop?: () => Promise<void>
}

/** One place where a server may come from. `undefined`: there is none there. */
export interface ServerSource {
  readonly name: string
  find(): Promise<FoundServer | undefined>
}

/** A kind of server, and where to look for one, in this order. */
export interface ServerKind {
  readonly title: string
  readonly sources: readonly ServerSource[]
  /** What to install if no source has a server. */
  readonly remedy: string
}

export type Search = { readonly found: FoundServer } | { readonly missing: string }

/** Finds the first server that a source has. A source that fails is named, and the next one is tried. */
export async function findServer(kind: ServerKind): Promise<Search> {
  const tried: string[] = []
  for (const source of kind.sources) {
    try {
      const found = await source.find()
      if (found !== undefined) return { found }
      tried.push(`${source.name}: none`)
    } catch (error) {
      // An address that was set by hand must work: no other server may replace it.
      if (error instanceof AddressUnusableError) throw error
      tried.push(`${source.name}: ${firstLine(error)}`)
    }
  }
  return { missing: `${kind.title} is nowhere (${tried.join('; ')}). ${kind.remedy}` }
}

/** A source for the address that an environment variable gives. */
export function addressInEnvironment(
  variable: string,
  describe: (url: string) => Promise<string>,
): ServerSource {
  return {
    name: variable,
    async find() {
      const url = process.env[variable]
      if (url === undefined || url === '') return undefined
      try {
        return { url, description: `${await describe(url)} (from ${variable})` }
      } catch (error) {
        throw new AddressUnusableError(
          `The server that ${variable} names cannot be used: ${firstLine(error)}`,
          {
            cause: error,
          },
        )
      }
    },
  }
}

export class AddressUnusableError extends Error {}

export function firstLine(error: unknown): string {
  const message = error instanceof AggregateError ? error.errors.map(String).join(', ') : String(error)
  return message.split('\n')[0] ?? message
}

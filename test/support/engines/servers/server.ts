/** A server that tests can use. */
export interface FoundServer {
  readonly url: string
  /** One line for the start of the run: the kind of server, and its source. Contains no password. */
  readonly description: string
  /** Stops the server if this run has started it. */
  readonly stop?: () => Promise<void>
}

/** One possible source of a server. `undefined`: the source has no server. */
export interface ServerSource {
  readonly name: string
  find(): Promise<FoundServer | undefined>
}

/** A kind of server, and its possible sources, in this order. */
export interface ServerKind {
  readonly title: string
  readonly sources: readonly ServerSource[]
  /** What to install if no source has a server. */
  readonly remedy: string
}

export type Search = { readonly found: FoundServer } | { readonly missing: string }

/** Finds the first source with a server. A source that fails is reported, and the next source is tried. */
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

/** A request as a framework has received it. */
export interface HttpRequest {
  /** In capitals, such as `POST`. */
  readonly method: string
  /** The path with its query, as the client sent it. */
  readonly path: string
  /** Names may have any case. A list stands for several header lines. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>> | Headers
  /** The bytes of the body; empty if there is no body, or if a parser has consumed it and `parsedBody` is given. */
  readonly body: Uint8Array
  /** The parsed body. It is needed only if a parser has consumed the bytes. */
  readonly parsedBody?: unknown
  /** The pattern of the route, such as `/orders/:id`: warnings name it, and occur once for each route. @default the path */
  readonly route?: string | undefined
  /**
   * The framework's own request, for the options `tenant`, `key` and `fingerprint`: the `Request` of Express or fetch, the
   * `FastifyRequest`, or the `Context` of Hono; for NestJS, the request of its platform. @default undefined
   */
  readonly native?: unknown
}

/** A request as a plug-in takes it. */
export interface TakenRequest extends HttpRequest {
  /** The handler would get a body that was cut: the request is refused with 413, with a key or without. */
  readonly isTooLarge?: boolean
}

/** What a handler gets to know about its request. */
export interface RequestContext {
  /** The key that the client sent; absent for a request without a key, and for a method that takes none. */
  readonly key?: string
  /**
   * 64 hexadecimal digits that are the same for every attempt of the request, and differ for all other requests: for calls to
   * systems that accept an idempotency key.
   */
  readonly idempotencyKey?: string
  /** Aborted when the handler has taken longer than `timeoutMs`. */
  readonly signal: AbortSignal
}

/** Returns the lines of a header. `undefined` if the request does not have it. */
export function headerLines({ headers }: HttpRequest, name: string): readonly string[] | undefined {
  if (isFetchHeaders(headers)) {
    const value = headers.get(name)
    return value === null ? undefined : [value]
  }
  const lines: string[] = []
  for (const [given, value] of Object.entries(headers)) {
    if (given.toLowerCase() !== name || value === undefined) continue
    if (typeof value === 'string') lines.push(value)
    else lines.push(...value)
  }
  return lines.length === 0 ? undefined : lines
}

/** A library may bring its own `Headers`, which are no instance of the global ones. */
function isFetchHeaders(headers: HttpRequest['headers']): headers is Headers {
  return typeof headers['get' as never] === 'function'
}

/** Returns whether the body is JSON, by the media type of the request. */
export function hasJsonBody(request: HttpRequest): boolean {
  return /^(?:application\/json|[^/\s]+\/[^/\s]+\+json)$/.test(mediaType(request))
}

/** In lower case, without parameters. */
export function mediaType(request: HttpRequest): string {
  const [type = ''] = headerLines(request, 'content-type') ?? []
  return type.split(';', 1)[0]!.trim().toLowerCase()
}

/** A response of a handler, or in its place. */
export interface HttpResponse {
  readonly status: number
  readonly headers?: Readonly<Record<string, string | readonly string[]>> | undefined
  /** Text is sent as UTF-8. */
  readonly body?: Uint8Array | string | undefined
}

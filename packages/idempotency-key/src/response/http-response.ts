/** A response of a handler, or in its place. */
export interface HttpResponse {
  /** A whole number from 200 to 599. */
  readonly status: number
  /** A list stands for several header lines. @default no headers */
  readonly headers?: Readonly<Record<string, string | readonly string[]>> | undefined
  /** Text is sent as UTF-8. `undefined` and `null` stand for no body. @default no body */
  readonly body?: Uint8Array | string | null | undefined
}

/**
 * A client of the AWS SDK, such as an `SQSClient` or an `SNSClient`. The publisher and the source never close a client that they
 * were given.
 */
export interface AwsClient {
  send(command: object, options?: { abortSignal?: AbortSignal }): Promise<unknown>
}

/** A client that this package has made. */
export interface OwnAwsClient extends AwsClient {
  destroy(): void
}

/** The commands of a package of the SDK that are used, by their names. */
export type AwsCommands = Readonly<Record<string, new (input: object) => object>>

/** How a client is made, if none is given. */
export interface AwsClientSettings {
  readonly region: string | undefined
  readonly endpoint: string | undefined
  readonly connectTimeoutMs: number
  /** How often the client sends a request. */
  readonly maxAttempts: number
}

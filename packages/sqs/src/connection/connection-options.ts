import type { OptionChecker } from '@txbox/core/internal'
import type { AwsClient } from './aws-client.ts'
import type { AwsServiceSettings } from './aws-service.ts'

/** An hour. */
const LONGEST_TIMEOUT_MS = 3_600_000

const ENDPOINT =
  "the URL of a server, such as 'http://127.0.0.1:9324', without user, password, query and hash"

/** The names of the options that the publisher and the source share, beside `client`. */
export const CONNECTION_OPTIONS = ['region', 'endpoint', 'confirmTimeoutMs', 'connectTimeoutMs'] as const

/** @throws {InvalidOptionError} for a wrong option. */
export function connectionOptions(
  check: OptionChecker,
  { region, endpoint }: { readonly region?: unknown; readonly endpoint?: unknown },
): Omit<AwsServiceSettings, 'client' | 'maxAttempts'> {
  const timeout = { min: 10, max: LONGEST_TIMEOUT_MS }
  if (region !== undefined && !/^[a-z\d-]{1,64}$/.test(check.text('region', { max: 64 }))) {
    throw check.wrong('region', "a region, such as 'eu-central-1'")
  }
  if (endpoint !== undefined && !isEndpoint(check.text('endpoint', { max: 2000 }))) {
    throw check.wrong('endpoint', ENDPOINT)
  }
  return {
    region: region as string | undefined,
    endpoint: endpoint as string | undefined,
    confirmTimeoutMs: check.milliseconds('confirmTimeoutMs', { ...timeout, default: 30_000 }),
    connectTimeoutMs: check.milliseconds('connectTimeoutMs', { ...timeout, default: 10_000 }),
  }
}

/** @throws {InvalidOptionError} for anything but a client of the AWS SDK. */
export function clientOption(check: OptionChecker, name: string, client: unknown): AwsClient | undefined {
  if (client === undefined) return undefined
  const isClient =
    typeof client === 'object' && client !== null && typeof (client as Partial<AwsClient>).send === 'function'
  if (!isClient) throw check.wrong(name, 'a client of the AWS SDK 3')
  return client as AwsClient
}

function isEndpoint(text: string): boolean {
  if (!/^https?:\/\/[!-~]+$/.test(text) || !URL.canParse(text)) return false
  const { username, password, search, hash } = new URL(text)
  return `${username}${password}${search}${hash}` === ''
}

import { BrokerUnavailableError } from '@txbox/core'
import { propertyOf, reasonOf } from '@txbox/core/internal'
import type { AwsClientSettings, AwsCommands, OwnAwsClient } from './aws-client.ts'

export type ServiceName = 'SQS' | 'SNS'

/** The parts of the package of a service that are used. */
export interface LoadedSdk {
  readonly commands: AwsCommands
  makeClient(settings: AwsClientSettings): OwnAwsClient
}

const PACKAGES = { SQS: '@aws-sdk/client-sqs', SNS: '@aws-sdk/client-sns' } as const

/** Each service is loaded when it is first needed: an application that only sends to queues needs no client for topics. */
const LOADERS: Readonly<Record<ServiceName, () => Promise<unknown>>> = {
  SQS: () => import('@aws-sdk/client-sqs'),
  SNS: () => import('@aws-sdk/client-sns'),
}

/** Returns the service whose package is installed: SQS, unless there is that of SNS alone. */
export async function installedService(): Promise<ServiceName> {
  const [hasSqs, hasSns] = await Promise.all([isInstalled('SQS'), isInstalled('SNS')])
  return hasSns && !hasSqs ? 'SNS' : 'SQS'
}

async function isInstalled(service: ServiceName): Promise<boolean> {
  try {
    await LOADERS[service]()
    return true
  } catch (error) {
    return !isMissing(error)
  }
}

/** @throws {BrokerUnavailableError} when the package of the service is not installed, with the command that installs it. */
export async function loadSdk(service: ServiceName): Promise<LoadedSdk> {
  let loaded: unknown
  try {
    loaded = await LOADERS[service]()
  } catch (cause) {
    throw new BrokerUnavailableError(
      isMissing(cause)
        ? `The client for ${service} is not installed. Run: npm install ${PACKAGES[service]}`
        : `The client for ${service}, ${PACKAGES[service]}, cannot be loaded: ${reasonOf(cause, 300)}`,
      { cause },
    )
  }
  const commands = loaded as AwsCommands
  const Client = commands[`${service}Client`] as unknown as new (settings: object) => OwnAwsClient
  return { commands, makeClient: (settings) => new Client(clientSettings(settings)) }
}

function isMissing(error: unknown): boolean {
  return propertyOf(error, 'code') === 'ERR_MODULE_NOT_FOUND'
}

function clientSettings({ region, endpoint, connectTimeoutMs, maxAttempts }: AwsClientSettings): object {
  return {
    maxAttempts,
    requestHandler: { connectionTimeout: connectTimeoutMs },
    // The URL of a queue may come from a topic: requests, which carry credentials, go to no host that a message names.
    useQueueUrlAsEndpoint: false,
    ...(region !== undefined && { region }),
    ...(endpoint !== undefined && { endpoint }),
  }
}

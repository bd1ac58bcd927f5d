import { readFile } from 'node:fs/promises'
import type { Publisher } from '@txbox/relay'
import { UsageError } from '../failure.ts'
import { loadPackage } from './broker-packages.ts'
import type { PublisherUrl } from './publisher-url.ts'
import { urlOptions } from './url-options.ts'

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i

interface WebhookHow {
  readonly webhookSecretFile?: string | undefined
  readonly allowHttp?: boolean | undefined
}

/** Loads the package for webhooks, and makes its publisher. */
export async function webhookPublisher(url: PublisherUrl, how: WebhookHow): Promise<Publisher> {
  const options = await webhookOptions(url, how, process.env)
  const { webhookPublisher: make } = await loadPackage('@txbox/webhook')
  return (make as (options: object) => Publisher)(options)
}

/** One endpoint for `https:` and `http:`, whose query is its own; for `webhook:`, topics are URLs. */
export async function webhookOptions(
  url: PublisherUrl,
  how: WebhookHow,
  environment: NodeJS.ProcessEnv,
): Promise<Readonly<Record<string, unknown>>> {
  const secret = await secretsOf(how, environment)
  const signed = secret === undefined ? {} : { secret }
  if (url.scheme === 'webhook') {
    if (url.hosts.length > 0 || url.path !== '') {
      throw new UsageError(
        '--publisher webhook: takes topics as URLs; for one endpoint, give its URL: https://…',
      )
    }
    const known = { timeoutMs: 'number', concurrency: 'number', perHostConcurrency: 'number' } as const
    return { ...urlOptions(url, { ...known, maxMessageBytes: 'number' }), ...signed }
  }
  if (url.scheme === 'http' && how.allowHttp !== true && !url.hosts.every((host) => LOOPBACK.test(host))) {
    throw new UsageError(
      '--publisher http: sends messages readable to everyone on the network; use https://, or allow it by --allow-http',
    )
  }
  // The operator has named this endpoint, which may be in a private network: it is no address from a message.
  return { url: url.href, allow: () => true, ...signed }
}

/** The file has one secret on each line, and several while secrets are rotated. */
async function secretsOf(
  { webhookSecretFile }: WebhookHow,
  environment: NodeJS.ProcessEnv,
): Promise<readonly string[] | undefined> {
  const given = environment['TXBOX_WEBHOOK_SECRET']
  if (webhookSecretFile === undefined) return given === undefined || given === '' ? undefined : [given]
  let text: string
  try {
    text = await readFile(webhookSecretFile, 'utf8')
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'
    throw new UsageError(`the file of --webhook-secret-file cannot be read: ${code}`)
  }
  const secrets = text.split(/\s+/).filter((line) => line !== '')
  if (secrets.length > 0) return secrets
  throw new UsageError('the file of --webhook-secret-file is empty')
}

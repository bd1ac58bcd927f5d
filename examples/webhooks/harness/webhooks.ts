import { createRequire } from 'node:module'
import type { SeededRandom } from './seeded-random.ts'

/** A webhook to deliver. The body is created when the webhook is sent: thousands of bodies would fill the memory. */
export interface Webhook {
  readonly deliveryId: string
  readonly event: string
  body(): string
}

interface Example {
  readonly event: string
  readonly payload: { readonly repository: Readonly<Record<string, unknown>> }
}

const DELIVERIES_PER_REPOSITORY = 15

/** Real payloads of GitHub that concern a repository. */
function examples(): Example[] {
  const catalogue = createRequire(import.meta.url)('@octokit/webhooks-examples') as readonly {
    readonly name: string
    readonly examples: readonly { readonly repository?: Readonly<Record<string, unknown>> }[]
  }[]
  return catalogue.flatMap(({ name, examples }) =>
    examples.flatMap(({ repository, ...rest }) =>
      repository === undefined ? [] : [{ event: name, payload: { ...rest, repository } }],
    ),
  )
}

/** As many webhooks as asked for, each a real payload with an id and a repository of its own choice. */
export function makeWebhooks(count: number, random: SeededRandom): readonly Webhook[] {
  const all = examples()
  const repositories = Math.max(1, Math.round(count / DELIVERIES_PER_REPOSITORY))
  return Array.from({ length: count }, () => {
    const { event, payload } = random.pick(all)
    // Squared, so that some repositories are busy: their webhooks come at the same time, and queue for one row.
    const id = 1 + Math.floor(random.next() ** 2 * repositories)
    const repository = `octo-org/repository-${String(id).padStart(4, '0')}`
    return {
      deliveryId: random.uuid(),
      event,
      body: () =>
        JSON.stringify({ ...payload, repository: { ...payload.repository, id, full_name: repository } }),
    }
  })
}

/** Every webhook one to three times, shuffled. */
export function schedule(webhooks: readonly Webhook[], random: SeededRandom): readonly Webhook[] {
  const repeated = webhooks.flatMap((webhook) => Array.from({ length: random.integer(1, 3) }, () => webhook))
  return random.shuffle(repeated)
}

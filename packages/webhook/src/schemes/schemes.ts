import { githubScheme } from './github-scheme.ts'
import type { Scheme } from './scheme.ts'
import { shopifyScheme } from './shopify-scheme.ts'
import { slackScheme } from './slack-scheme.ts'
import { standardScheme } from './standard-scheme.ts'
import { stripeScheme } from './stripe-scheme.ts'

/**
 * How a sender signs, always with HMAC-SHA-256:
 *
 * - `'standard'`: Standard Webhooks, of which the symmetric signatures `v1` are checked; covers id, time and body.
 * - `'stripe'` and `'slack'`: cover time and body. Of Stripe, the signatures `v1` are checked.
 * - `'github'` and `'shopify'`: cover the body alone, so that a captured webhook never becomes too old. Of GitHub, the header
 *   `X-Hub-Signature-256` is checked, and not the older one with SHA-1.
 */
export type WebhookScheme = 'standard' | 'stripe' | 'github' | 'slack' | 'shopify'

export const SCHEMES: Readonly<Record<WebhookScheme, Scheme>> = {
  standard: standardScheme,
  stripe: stripeScheme,
  github: githubScheme,
  slack: slackScheme,
  shopify: shopifyScheme,
}

export const SCHEME_NAMES: readonly WebhookScheme[] = ['standard', 'stripe', 'github', 'slack', 'shopify']

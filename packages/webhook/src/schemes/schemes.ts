import { githubScheme } from './github-scheme.ts'
import type { Scheme } from './scheme.ts'
import { shopifyScheme } from './shopify-scheme.ts'
import { slackScheme } from './slack-scheme.ts'
import { standardScheme } from './standard-scheme.ts'
import { stripeScheme } from './stripe-scheme.ts'

export type WebhookScheme = 'standard' | 'stripe' | 'github' | 'slack' | 'shopify'

export const SCHEMES: Readonly<Record<WebhookScheme, Scheme>> = {
  standard: standardScheme,
  stripe: stripeScheme,
  github: githubScheme,
  slack: slackScheme,
  shopify: shopifyScheme,
}

export const SCHEME_NAMES: readonly WebhookScheme[] = ['standard', 'stripe', 'github', 'slack', 'shopify']

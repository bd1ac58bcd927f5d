import type { OptionChecker } from '@txbox/core/internal'

/** A certificate or key in PEM, or in another form that Node's `tls` accepts. */
type Secret = string | Uint8Array

/** The settings of `amqps://`, with the meanings and defaults of Node's `tls.connect`. */
export interface RabbitmqTlsOptions {
  /** The certificate authorities to trust, instead of the authorities that Node trusts by default. */
  ca?: Secret | Secret[] | undefined
  /** The client's certificate, for a broker that asks for one; needs `key`. */
  cert?: Secret | undefined
  key?: Secret | undefined
  /** The passphrase of `key`. */
  passphrase?: string | undefined
  /** The name that the broker's certificate must have. @default the host of the url */
  servername?: string | undefined
}

const NAMES = ['ca', 'cert', 'key', 'passphrase', 'servername'] as const

export function tlsSettings(check: OptionChecker, tls: RabbitmqTlsOptions | undefined): RabbitmqTlsOptions {
  if (tls === undefined) return {}
  if (typeof tls !== 'object' || tls === null || Object.keys(tls).some((name) => !isName(name))) {
    throw check.wrong('tls', `an object with no other members than ${NAMES.join(', ')}`)
  }
  // The client copies all members: a member that is undefined would hide the default.
  return Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined))
}

function isName(name: string): boolean {
  return NAMES.some((known) => known === name)
}

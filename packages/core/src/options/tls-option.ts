import type { OptionChecker } from './options.ts'

/** A certificate or key in PEM, or in another form that Node's `tls` accepts. */
type Secret = string | Uint8Array

/** Settings of TLS, with the meanings and defaults of Node's `tls.connect`. */
export interface TlsOptions {
  /** The certificate authorities to trust, instead of the authorities that Node trusts by default. */
  ca?: Secret | Secret[] | undefined
  /** The client's certificate, for a broker that asks for one; needs `key`. */
  cert?: Secret | undefined
  key?: Secret | undefined
  /** The passphrase of `key`. */
  passphrase?: string | undefined
  /** The name that the broker's certificate must have. @default the host that is connected to */
  servername?: string | undefined
}

const NAMES = ['ca', 'cert', 'key', 'passphrase', 'servername'] as const

/** Checks the option `tls`, and returns its members that are set. */
export function tlsOption(check: OptionChecker, tls: TlsOptions | undefined): TlsOptions {
  if (tls === undefined) return {}
  if (typeof tls !== 'object' || tls === null || Object.keys(tls).some((name) => !isName(name))) {
    throw check.wrong('tls', `an object with no other members than ${NAMES.join(', ')}`)
  }
  // Clients copy all members: a member that is undefined would hide the default.
  return Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined))
}

function isName(name: string): boolean {
  return NAMES.some((known) => known === name)
}

import type { OptionChecker } from '@txbox/core/internal'

/** A certificate or key in PEM, or as Node's `tls` takes it otherwise. */
type Secret = string | Uint8Array

/** For `amqps://`: what Node's `tls.connect` calls the same. What is left out is as Node has it. */
export interface RabbitmqTlsOptions {
  /** Whom to trust, in place of the authorities that Node comes with. */
  ca?: Secret | Secret[] | undefined
  /** The client's certificate, for a broker that asks for one; with `key`. */
  cert?: Secret | undefined
  key?: Secret | undefined
  /** Of `key`. */
  passphrase?: string | undefined
  /** The name that the broker's certificate must have. @default the host of the url */
  servername?: string | undefined
}

const NAMES = ['ca', 'cert', 'key', 'passphrase', 'servername'] as const

/** Reads the option `tls`. */
export function tlsSettings(check: OptionChecker, tls: RabbitmqTlsOptions | undefined): RabbitmqTlsOptions {
  if (tls === undefined) return {}
  if (typeof tls !== 'object' || tls === null || Object.keys(tls).some((name) => !isName(name))) {
    throw check.wrong('tls', `an object with no other members than ${NAMES.join(', ')}`)
  }
  // The client copies the members that are there: one that is undefined would hide its own default.
  return Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined))
}

function isName(name: string): boolean {
  return NAMES.some((known) => known === name)
}

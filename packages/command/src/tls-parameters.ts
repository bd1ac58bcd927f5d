import { UsageError } from './failure.ts'
import { visible } from './visible.ts'

/** The TLS options of mysql2 for one connection. */
export interface MysqlTls {
  readonly rejectUnauthorized: boolean
  readonly verifyIdentity: boolean
}

/** A parameter that asks for TLS, in the spelling of any client. */
const TLS_NAME = /ssl|tls|encrypt/i
const MODE_NAME = /^ssl[-_]?mode$/i
const ACCEPT_NAME = /^ssl[-_]?accept$/i

/** The parameters that pg understands. */
const POSTGRES_NAMES: ReadonlySet<string> = new Set([
  'ssl',
  'sslmode',
  'sslcert',
  'sslkey',
  'sslrootcert',
  'sslnegotiation',
])

const ENCRYPTED: MysqlTls = { rejectUnauthorized: false, verifyIdentity: false }
const VERIFIED_CA: MysqlTls = { rejectUnauthorized: true, verifyIdentity: false }
const VERIFIED: MysqlTls = { rejectUnauthorized: true, verifyIdentity: true }

/** The modes of MySQL and MariaDB clients, then those of PostgreSQL clients, and Prisma's, in lower case without separators. */
const MYSQL_MODES: Readonly<Record<string, MysqlTls | false>> = {
  disabled: false,
  disable: false,
  required: ENCRYPTED,
  require: ENCRYPTED,
  verifyca: VERIFIED_CA,
  verifyidentity: VERIFIED,
  verifyfull: VERIFIED,
}
const ACCEPT_MODES: Readonly<Record<string, MysqlTls>> = {
  acceptinvalidcerts: ENCRYPTED,
  strict: VERIFIED,
}

const MYSQL_FORMS =
  'ssl-mode=REQUIRED, VERIFY_CA, VERIFY_IDENTITY or DISABLED (NODE_EXTRA_CA_CERTS names a file with the certificates of a private authority)'
const POSTGRES_FORMS =
  'sslmode=require, verify-ca, verify-full or disable, with sslrootcert, sslcert and sslkey'

/**
 * Translates the TLS parameter of an address into the option of mysql2, which would ignore the parameter and connect without TLS.
 *
 * @returns the address without the parameter.
 * @throws {UsageError} for a TLS parameter that cannot be translated.
 */
export function mysqlTls(url: string): { readonly url: string; readonly tls: MysqlTls | undefined } {
  let tls: MysqlTls | false | undefined
  for (const [name, value] of parametersOf(url)) {
    // mysql2 reads this one, and throws for a value that it does not understand.
    if (name === 'ssl' && value !== 'true' && value !== '1') continue
    const modes = MODE_NAME.test(name) ? MYSQL_MODES : ACCEPT_NAME.test(name) ? ACCEPT_MODES : undefined
    const mode = modes?.[value.toLowerCase().replaceAll(/[-_]/g, '')]
    if (mode === undefined || (tls !== undefined && tls !== mode)) throw refused(name, MYSQL_FORMS)
    tls = mode
  }
  if (tls === undefined) return { url, tls }
  return {
    url: without(url, (name) => MODE_NAME.test(name) || ACCEPT_NAME.test(name)),
    tls: tls || undefined,
  }
}

/** @throws {UsageError} for a TLS parameter that pg ignores: it would connect without TLS. */
export function refuseUnknownTls(url: string): void {
  for (const [name] of parametersOf(url)) {
    if (!POSTGRES_NAMES.has(name)) throw refused(name, POSTGRES_FORMS)
  }
}

/** Returns the parameters that may ask for TLS. */
function parametersOf(url: string): [name: string, value: string][] {
  return [...new URL(url).searchParams].filter(([name]) => TLS_NAME.test(name))
}

/** Works on the text, because an address that is parsed and written again may have another password. */
function without(url: string, isRemoved: (name: string) => boolean): string {
  const { search } = new URL(url)
  const at = url.indexOf('?')
  const left = search
    .slice(1)
    .split('&')
    .filter((pair) => ![...new URLSearchParams(pair).keys()].some(isRemoved))
  return left.length === 0 ? url.slice(0, at) : `${url.slice(0, at)}?${left.join('&')}`
}

/** The value is not shown: it may be a key. */
function refused(name: string, forms: string): UsageError {
  return new UsageError(
    `--database has the parameter '${visible(name)}' with a value that this command cannot use, so it would connect without the TLS ` +
      `that you ask for. Expected ${forms}.`,
  )
}

import { describe, expect, test } from 'vitest'
import { mysqlTls, refuseUnknownTls } from '../../packages/command/src/tls-parameters.ts'

const ENCRYPTED = { rejectUnauthorized: false, verifyIdentity: false }
const VERIFIED_CA = { rejectUnauthorized: true, verifyIdentity: false }
const VERIFIED = { rejectUnauthorized: true, verifyIdentity: true }

describe('MySQL and MariaDB', () => {
  test.for([
    ['ssl-mode=REQUIRED', ENCRYPTED],
    ['sslmode=require', ENCRYPTED],
    ['ssl_mode=Required', ENCRYPTED],
    ['sslMode=VERIFY_CA', VERIFIED_CA],
    ['sslmode=verify-ca', VERIFIED_CA],
    ['ssl-mode=VERIFY_IDENTITY', VERIFIED],
    ['sslmode=verify-full', VERIFIED],
    ['sslaccept=strict', VERIFIED],
    ['sslaccept=accept_invalid_certs', ENCRYPTED],
    ['ssl-mode=DISABLED', undefined],
    ['sslmode=disable', undefined],
  ] as const)('%s is translated', ([parameter, tls]) => {
    const base = 'mysql://u:p%40ss@host/shop'
    expect(mysqlTls(`${base}?${parameter}`)).toEqual({ url: base, tls })
    expect(mysqlTls(`${base}?timezone=Z&${parameter}&charset=utf8#x`)).toEqual({
      url: `${base}?timezone=Z&charset=utf8`,
      tls,
    })
  })

  test.for([
    ['no parameter', 'mysql://host/shop'],
    ['other parameters', 'mysql://host/shop?timezone=Z'],
    ["mysql2's own form", 'mysql://host/shop?ssl=%7B%22rejectUnauthorized%22%3Atrue%7D'],
    ["mysql2's own form without TLS", 'mysql://host/shop?ssl=false'],
    ['a profile of mysql2', 'mysql://host/shop?ssl=Amazon%20RDS'],
  ])('%s: the address stays as it is', ([, url]) => {
    expect(mysqlTls(url!)).toEqual({ url, tls: undefined })
  })

  test.for([
    ...['ssl-mode=PREFERRED', 'sslmode=prefer', 'sslmode=', 'ssl-mode=yes', 'sslaccept=maybe', 'ssl=true'],
    ...[
      'ssl=1',

      'useSSL=true',
      'tls=true',
      'sslcert=/ca.pem',
      'ssl-ca=/ca.pem',
      'requireSSL=1',
    ],
    ...['ssl-mode=DISABLED&sslmode=require', 'encrypt=true'],
  ])('%s is wrong usage, and names the form that works', (parameters) => {
    expect(() => mysqlTls(`mysql://host/shop?${parameters}`)).toThrow(
      /TLS that you ask for.*ssl-mode=REQUIRED/,
    )
  })
})

describe('PostgreSQL', () => {
  test.for([
    '',
    '?sslmode=require',
    '?ssl=true&sslrootcert=/ca.pem',
    '?sslmode=verify-full&application_name=x',
  ])("pg's own parameters stay: %s", (parameters) =>
    expect(() => refuseUnknownTls(`postgres://host/shop${parameters}`)).not.toThrow(),
  )

  test.for(['ssl-mode=require', 'ssl_mode=require', 'sslMode=require', 'sslaccept=strict', 'tls=true'])(
    '%s is wrong usage, and names the form that works',
    (parameter) =>
      expect(() => refuseUnknownTls(`postgres://host/shop?${parameter}`)).toThrow(/sslmode=require/),
  )
})

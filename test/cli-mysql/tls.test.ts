import { randomUUID } from 'node:crypto'
import { createConnection } from 'mysql2/promise'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { txbox, type Ended } from '../cli/run-txbox.ts'
import { createDatabase } from '../support/engines/servers/mysql-databases.ts'

let url = ''
let drop: (() => Promise<void>) | undefined
let hasTls = false
const user = `tls_${randomUUID().slice(0, 8)}`

beforeAll(async () => {
  const [serverUrl] = inject('needs').map((name) => inject('servers')[name])
  ;({ url, drop } = await createDatabase(serverUrl ?? ''))
  const [rows] = await sql("show variables like 'ssl_cert'", "show variables like 'have_ssl'")
  const values = (rows as { Variable_name: string; Value: string }[]).map(
    ({ Variable_name: name, Value: value }) => [name.toLowerCase(), value] as const,
  )
  hasTls = values.every(([name, value]) => (name === 'have_ssl' ? value === 'YES' : value !== ''))
})
afterAll(async () => {
  await sql(`drop user if exists ${user}`)
  await drop?.()
})

/** @returns the rows of all statements. */
async function sql(...statements: string[]): Promise<unknown[][]> {
  const connection = await createConnection(url)
  const rows: unknown[] = []
  for (const statement of statements) rows.push(...[(await connection.query(statement))[0]].flat())
  await connection.end()
  return [rows]
}

const run = (parameters: string, as?: string): Promise<Ended> => {
  const address = new URL(url)
  if (as !== undefined) address.username = as
  address.search = parameters
  return txbox(['migrate', '--dry-run'], { DATABASE_URL: address.href })
}

test.for(['ssl-mode=PREFERRED', 'sslmode=prefer', 'ssl=true', 'useSSL=true'])(
  'N2 a parameter that asks for TLS in a form that cannot be used is wrong usage: %s',
  async (parameters) => {
    const { code, stderr } = await run(parameters)
    expect(stderr).toMatch(/would connect without the TLS that you ask for. Expected ssl-mode=REQUIRED/)
    expect(code).toBe(2)
  },
)

test.for(['ssl-mode=REQUIRED', 'sslmode=require', 'ssl_mode=required', 'sslaccept=accept_invalid_certs'])(
  'the command connects with TLS, or not at all: %s',
  async (parameters) => {
    await sql(
      `create user if not exists ${user}`,
      `grant all on *.* to ${user}`,
      ...(hasTls ? [`alter user ${user} require ssl`] : []),
    )
    expect((await run('ssl-mode=DISABLED', user)).code).toBe(hasTls ? 1 : 0)
    const { code, stderr } = await run(parameters, user)
    expect([code, stderr]).toEqual(hasTls ? [0, ''] : [1, expect.stringMatching(/secure connection/i)])
  },
)

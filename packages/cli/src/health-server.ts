import { createServer, type Server } from 'node:http'

/** An orchestrator waits for a second or so. */
const DATABASE_WITHIN_MS = 2000

/** What a probe is told: well, or what is wrong. */
export type Health = { readonly ok: true } | { readonly ok: false; readonly reason: string }

/** What the two probes ask. */
export interface HealthChecks {
  /** Should this process be replaced? Only what a restart mends. */
  live(): Health
  /** Does it do its work at this moment? */
  ready(): Promise<Health>
}

/** `GET /livez` and `GET /readyz`: 200, or 503 with the reason. Resolves when it listens. */
export async function startHealthServer(
  address: { readonly port: number; readonly host: string },
  checks: HealthChecks,
): Promise<{ readonly port: number; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    const answer = async (): Promise<void> => {
      const path = request.url?.replace(/\?.*$/, '')
      const asked = path === '/livez' ? checks.live() : path === '/readyz' ? await checks.ready() : undefined
      response.statusCode = asked === undefined ? 404 : asked.ok ? 200 : 503
      response.setHeader('content-type', 'application/json')
      response.end(`${JSON.stringify(asked ?? { ok: false, reason: 'ask /livez or /readyz' })}\n`)
    }
    void answer()
  })
  await listening(server, address)
  const bound = server.address()
  return {
    port: typeof bound === 'object' && bound !== null ? bound.port : address.port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** Is the database there, and are its tables? In time for the one who asks. */
export async function databaseHealth(check: () => Promise<void>): Promise<Health> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<Health>((resolve) => {
    const reason = `the database has not answered within ${DATABASE_WITHIN_MS} ms`
    timer = setTimeout(resolve, DATABASE_WITHIN_MS, { ok: false, reason })
  })
  const asked = check().then(
    (): Health => ({ ok: true }),
    (): Health => ({
      ok: false,
      reason: 'the database cannot be reached, or its tables are of another revision',
    }),
  )
  try {
    return await Promise.race([asked, late])
  } finally {
    clearTimeout(timer)
  }
}

function listening(server: Server, { port, host }: { port: number; host: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      reject(
        new Error(`--health-port ${port}: ${error.message}. Choose a port that is free.`, { cause: error }),
      )
    })
    server.listen(port, host, () => resolve())
  })
}

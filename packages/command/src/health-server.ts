import { createServer, type Server } from 'node:http'

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

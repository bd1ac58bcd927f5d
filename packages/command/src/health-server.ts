import { createServer, type Server } from 'node:http'
import { UsageError } from './failure.ts'

export type Health = { readonly ok: true } | { readonly ok: false; readonly reason: string }

export const OK: Health = { ok: true }

export interface HealthChecks {
  /** Fails if the process should be replaced, which is only the case for problems that a restart fixes. */
  live(): Health
  /** Fails if the process cannot do its work at this moment. */
  ready(): Promise<Health>
}

/** @throws {UsageError} for metrics that nobody could ask for. */
export function refuseMetricsWithoutPort(options: {
  readonly healthPort?: number
  readonly metrics?: boolean
}): void {
  if (options.metrics === true && options.healthPort === undefined) {
    throw new UsageError('--metrics requires --health-port: the metrics are served on that port.')
  }
}

/** The metrics that `GET /metrics` returns. */
export interface Metrics {
  readonly contentType: string
  /** Never rejects. */
  text(): Promise<string>
}

/**
 * Serves `GET /livez` and `GET /readyz`, whose status is 200, or 503 with the reason, and `GET /metrics` if there are metrics.
 * Resolves when the server listens.
 */
export async function startHealthServer(
  address: { readonly port: number; readonly host: string },
  checks: HealthChecks,
  metrics?: Metrics,
): Promise<{ readonly port: number; close(): Promise<void> }> {
  const paths = metrics === undefined ? '/livez or /readyz' : '/livez, /readyz or /metrics'
  const server = createServer((request, response) => {
    const answer = async (): Promise<void> => {
      const path = request.url?.replace(/\?.*$/, '')
      if (path === '/metrics' && metrics !== undefined) {
        const text = await metrics.text()
        response.setHeader('content-type', metrics.contentType)
        response.end(text)
        return
      }
      const asked = path === '/livez' ? checks.live() : path === '/readyz' ? await checks.ready() : undefined
      response.statusCode = asked === undefined ? 404 : asked.ok ? 200 : 503
      response.setHeader('content-type', 'application/json')
      response.end(`${JSON.stringify(asked ?? { ok: false, reason: `not found: use ${paths}` })}\n`)
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
      reject(new Error(`--health-port ${port}: ${error.message}. Choose a free port.`, { cause: error }))
    })
    server.listen(port, host, () => resolve())
  })
}

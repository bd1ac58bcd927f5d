import type { ConnectedDatabase } from '@txbox/core'
import {
  OptionChecker,
  connectedPortsOf,
  loggerOption,
  spanParentOption,
  telemetryOption,
} from '@txbox/core/internal'
import { idempotencySettings } from './idempotency-settings.ts'
import type { Idempotency, IdempotencyOptions } from './idempotency.ts'
import { leaseOption } from './lease-option.ts'
import { requestLog } from './request-log.ts'
import { RequestRunner } from './request-runner.ts'
import { RequestSpans } from './request-span.ts'
import { runnerKey } from './runner-of.ts'

/**
 * Creates what handles requests with an `Idempotency-Key` once: the handler's work, the claim of the key and the stored response
 * commit in one transaction, before the first byte of the response is sent. While a request is being handled, its transaction is
 * open, and takes a connection of the pool.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function createIdempotency<Tx>(
  options: IdempotencyOptions & {
    /** The result of `postgres({ db })` or `mysql({ db })`. */
    database: ConnectedDatabase<Tx>
  },
): Idempotency<Tx> {
  const where = 'createIdempotency'
  const check = new OptionChecker(where, options).known(
    'database',
    'name',
    'methods',
    'required',
    'retentionMs',
    'timeoutMs',
    'key',
    'tenant',
    'fingerprint',
    'whileInFlight',
    'maxKeyCharacters',
    'maxRequestBytes',
    'maxResponseBytes',
    'keep',
    'seal',
    'replayHeaders',
    'documentation',
    'logger',
    'telemetry',
    'parent',
  )
  const ports = connectedPortsOf(where, options.database)
  const settings = idempotencySettings(check, options)
  const log = requestLog(loggerOption(check, options.logger))
  const telemetry = telemetryOption(check, options.telemetry)
  const spans = new RequestSpans(settings.name, spanParentOption(check), telemetry)
  const runner = new RequestRunner(ports, settings, log, spans)
  const idempotency: Idempotency<Tx> & { readonly [runnerKey]: RequestRunner } = {
    name: settings.name,
    [runnerKey]: runner,
    handle: async (request, work) => (await runner.answer(request, work as never)).response,
    async handleLeased(request, work, options = {}) {
      const leaseMs = leaseOption('handleLeased', options)
      return (await runner.answer(request, (_, about) => work(about), { leaseMs })).response
    },
    on: (event, listener) => log.events.on(event, listener),
  }
  return idempotency
}

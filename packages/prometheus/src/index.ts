export {
  prometheusTelemetry,
  type PrometheusTelemetry,
  type PrometheusTelemetryOptions,
} from './prometheus-telemetry.ts'
export { InvalidOptionError } from '@txbox/core'
export type { Attributes, Telemetry } from '@txbox/core'

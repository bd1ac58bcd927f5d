export { openTelemetry, type OpenTelemetryOptions } from './open-telemetry.ts'
export { InvalidOptionError } from '@txbox/core'
export type { Telemetry } from '@txbox/core'

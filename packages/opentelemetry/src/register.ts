/* Importing this module sends the traces and metrics of the whole process to OpenTelemetry. */
import { telemetryKey } from '@txbox/core'
import { openTelemetry } from './open-telemetry.ts'

Object.assign(globalThis, { [telemetryKey]: openTelemetry() })

/* Importing this module sends the traces and metrics of all of the process to OpenTelemetry. */
import { telemetryKey } from '@txbox/core'
import { openTelemetry } from './open-telemetry.ts'

Object.assign(globalThis, { [telemetryKey]: openTelemetry() })

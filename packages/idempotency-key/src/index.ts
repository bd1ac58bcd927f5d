export { createIdempotency } from './handle/create-idempotency.ts'
export type { HttpRequest, RequestContext } from './request/http-request.ts'
export type { LeaseOptions } from './handle/lease-option.ts'
export type { HttpResponse } from './response/http-response.ts'
export type {
  Idempotency,
  IdempotencyEvents,
  IdempotencyOptions,
  LeasedWork,
  Work,
} from './handle/idempotency.ts'
export { RequestTimeoutError } from './handle/request-timeout-error.ts'
export type { Seal } from './response/seal.ts'
export {
  InvalidOptionError,
  LeaseLostError,
  TxboxError,
  consoleLogger,
  isTxboxError,
  type Logger,
} from '@txbox/core'

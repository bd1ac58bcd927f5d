export { cloudEvents } from './cloud-events.ts'
export type { CloudEventsOptions } from './cloud-events-options.ts'
export {
  InvalidOptionError,
  PermanentError,
  RetryLaterError,
  type CloudEventsBinding,
  type OutboxMessage,
  type PublishResult,
  type Publisher,
} from '@txbox/core'

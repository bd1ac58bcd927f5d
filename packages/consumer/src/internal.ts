/* The packages of txbox share these exports among themselves: they may change in any release. */
export { markedHandlerOf } from './options/at-least-once.ts'
export { LOCAL_ENTRY_OPTIONS } from './options/local-settings.ts'
export { wakeLocalConsumers } from './local/local-hub.ts'

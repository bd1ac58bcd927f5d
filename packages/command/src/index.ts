// Use only syntax that every Node.js understands in this file: `startTxbox` runs before the version of Node.js is known.
export type { DriverName, Installation } from './installation.ts'
export { startTxbox } from './start-txbox.ts'

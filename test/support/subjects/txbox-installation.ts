import type { Installation } from '../../../packages/command/dist/index.js'

/** The installation that `@txbox/cli` passes to the command, for tests that run the command in their own process. */
export const INSTALLATION: Installation = {
  calledAs: 'npx @txbox/cli',
  drivers: {
    pg: () => import('pg'),
    mysql2: () => import('mysql2'),
    '@txbox/rabbitmq': () => import('@txbox/rabbitmq'),
  },
}

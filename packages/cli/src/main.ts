#!/usr/bin/env node
// Use only syntax that every Node.js understands here: static imports are parsed before this code runs.
const { startTxbox } = await import('@txbox/command')

await startTxbox({
  calledAs: 'npx @txbox/cli',
  drivers: {
    pg: () => import('pg'),
    mysql2: () => import('mysql2'),
    '@txbox/rabbitmq': () => import('@txbox/rabbitmq'),
  },
})

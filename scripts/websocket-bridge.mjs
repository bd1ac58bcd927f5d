// In the place of Neon's proxy: each WebSocket becomes a connection to the server on this machine. The driver of Neon
// connects to the bridge by a module that a program loads first, since its page is for the real service.
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { WebSocketServer } from 'ws'

/** @returns the bridge to the server with this address. */
export async function startWebSocketBridge(address) {
  const { hostname, port } = new URL(address)
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
  server.on('connection', (webSocket) => {
    const socket = connect(Number(port || 5432), hostname)
    webSocket.on('message', (bytes) => socket.write(bytes))
    webSocket.on('close', () => socket.destroy())
    webSocket.on('error', () => socket.destroy())
    socket.on('data', (bytes) => webSocket.send(bytes))
    socket.on('close', () => webSocket.close())
    socket.on('error', () => webSocket.terminate())
  })
  await once(server, 'listening')
  return {
    host: `127.0.0.1:${server.address().port}`,
    async stop() {
      for (const client of server.clients) client.terminate()
      server.close()
      await once(server, 'close')
    },
  }
}

/**
 * Writes a module that makes the driver of Neon use the bridge.
 *
 * @returns the options with which Node loads the module first.
 */
export function throughBridge(folder, { host }) {
  const { resolve } = createRequire(path.join(folder, 'any.js'))
  const driver = path.join(path.dirname(resolve('@neondatabase/serverless')), 'index.mjs')
  const file = path.join(folder, 'through-bridge.mjs')
  const settings = { wsProxy: host, useSecureWebSocket: false, pipelineConnect: false }
  writeFileSync(
    file,
    `import { neonConfig } from ${JSON.stringify(pathToFileURL(driver).href)}\n` +
      `Object.assign(neonConfig, ${JSON.stringify(settings)})\n`,
  )
  return ['--import', pathToFileURL(file).href]
}

// A local package registry that serves the packages of this workspace as they would be published. All other packages come
// from the registry that npm is configured with.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, readdirSync } from 'node:fs'
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import path from 'node:path'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/** Packs every package into a folder, and serves the archives. @returns the address, and a function that stops the server. */
export async function startLocalRegistry(folder) {
  mkdirSync(folder, { recursive: true })
  packInto(folder)
  const upstream = npmRegistry()
  const manifests = readdirSync(path.join(root, 'packages')).map((name) =>
    JSON.parse(readFileSync(path.join(root, 'packages', name, 'package.json'), 'utf8')),
  )
  const server = createServer((request, response) => {
    const asked = decodeURIComponent(request.url ?? '').slice(1)
    const manifest = manifests.find(({ name }) => name === asked)
    if (manifest !== undefined) {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(documentOf(manifest, folder, `http://${request.headers.host}`)))
    } else if (/^[\w.-]+\.tgz$/.test(asked)) {
      response.end(readFileSync(path.join(folder, asked)))
    } else {
      void passOn(request, response, upstream)
    }
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    stop: () => new Promise((resolve) => (server.close(resolve), server.closeAllConnections())),
  }
}

function npmRegistry() {
  const { status, stdout, stderr } = spawnSync('npm', ['config', 'get', 'registry'], {
    cwd: root,
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`npm config get registry failed:\n${stdout}${stderr}`)
  return stdout.trim()
}

async function passOn(request, response, upstream) {
  try {
    const { accept = '*/*' } = request.headers
    const answer = await fetch(new URL(request.url.slice(1), upstream), { headers: { accept } })
    response.writeHead(answer.status, {
      'content-type': answer.headers.get('content-type') ?? 'application/json',
    })
    response.end(Buffer.from(await answer.arrayBuffer()))
  } catch (error) {
    response.writeHead(502).end(`${upstream}: ${error.message}`)
  }
}

function packInto(folder) {
  const { packageManager } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  const pack = [
    '--yes',
    packageManager,
    '-r',
    '--filter',
    './packages/*',
    'pack',
    '--pack-destination',
    folder,
  ]
  const { status, stdout, stderr } = spawnSync('npx', pack, { cwd: root, encoding: 'utf8' })
  if (status !== 0) throw new Error(`npx ${pack.join(' ')} failed:\n${stdout}${stderr}`)
}

/** The registry's description of a package, which has one version. */
function documentOf(manifest, folder, address) {
  const { name, version } = manifest
  const file = `${name.replace('@', '').replace('/', '-')}-${version}.tgz`
  const integrity = `sha512-${createHash('sha512')
    .update(readFileSync(path.join(folder, file)))
    .digest('base64')}`
  const dependencies = Object.fromEntries(
    Object.entries(manifest.dependencies ?? {}).map(([dependency, range]) => [
      dependency,
      range === 'workspace:*' ? version : range,
    ]),
  )
  return {
    name,
    'dist-tags': { latest: version },
    versions: {
      [version]: { ...manifest, dependencies, dist: { tarball: `${address}/${file}`, integrity } },
    },
  }
}

import { readFileSync } from 'node:fs'
import os from 'node:os'

/** The machine of the client, as pairs to print. @param libraries the npm packages that are measured. */
export function aboutMachine(libraries: readonly string[]): readonly (readonly [string, string])[] {
  return [
    ['node', [process.version, ...libraries.map((name) => `${name} ${versionOf(name)}`)].join(', ')],
    [
      'machine',
      `${os.availableParallelism()} cores (${os.cpus()[0]?.model}), ${Math.round(os.totalmem() / 2 ** 30)} GiB, ` +
        `load before the run ${os.loadavg()[0]!.toFixed(2)}`,
    ],
  ]
}

/** Reads the file, because not every package exports its package.json. */
function versionOf(name: string): string {
  for (const up of ['.', '..']) {
    try {
      const file = new URL(`${up}/package.json`, import.meta.resolve(name))
      return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
    } catch {
      // The entry of the package is one folder deeper.
    }
  }
  return 'of an unknown version'
}

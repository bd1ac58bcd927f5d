import { execFileSync } from 'node:child_process'
import os from 'node:os'

/** The user who runs a server. */
export interface SystemUser {
  readonly uid: number
  readonly gid: number
}

/**
 * Database servers refuse to run as root. As root: the first of these users that exists, or `nobody`. Otherwise
 * `undefined`: the user of this process.
 */
export function serverUser(...names: readonly string[]): SystemUser | undefined {
  if (os.userInfo().uid !== 0) return undefined
  const known = [...names, 'nobody']
  for (const name of known) {
    try {
      const id = (what: string): number =>
        Number(execFileSync('id', [what, name], { encoding: 'utf8', stdio: 'pipe' }))
      return { uid: id('-u'), gid: id('-g') }
    } catch {
      // This user does not exist.
    }
  }
  throw new Error(`The server refuses to run as root, and no user is named ${known.join(' or ')}.`)
}

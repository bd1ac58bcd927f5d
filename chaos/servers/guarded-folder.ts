import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import path from 'node:path'

/** Servers that are ending may still write: the folder is removed again until it stays away. The parent goes if empty. */
const GUARD =
  'cat > /dev/null; for n in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$1"; sleep 0.5; done; rmdir "$2" 2> /dev/null'

/** A folder of servers that goes when this process goes, even if this process dies by SIGKILL. */
export class GuardedFolder {
  readonly path: string
  readonly #guard: ReturnType<typeof spawn>

  private constructor(folder: string, guard: ReturnType<typeof spawn>) {
    this.path = folder
    this.#guard = guard
  }

  /** Makes a folder inside `parent`, which is made too if need be. The servers' users may enter both. */
  static create(parent: string, name: string): GuardedFolder {
    mkdirSync(parent, { recursive: true })
    if (process.getuid?.() === 0) chmodSync(parent, 0o755)
    const folder = mkdtempSync(path.join(path.resolve(parent), `${name}-`))
    chmodSync(folder, 0o755)
    const guard = spawn('sh', ['-c', GUARD, 'sh', folder, path.resolve(parent)], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    })
    return new GuardedFolder(folder, guard)
  }

  /** Removes the folder, after its servers have ended. */
  async remove(): Promise<void> {
    const ended = once(this.#guard, 'exit')
    this.#guard.kill('SIGKILL')
    await ended
    await rm(this.path, { recursive: true, force: true, maxRetries: 5 })
  }
}

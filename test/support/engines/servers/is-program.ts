import { accessSync, constants } from 'node:fs'

/** Returns whether this process may run the file. */
export function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

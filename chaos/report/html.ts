import type { RunResult } from '../driver/finish.ts'
export function toHtml(_result: RunResult): string {
  return ''
}

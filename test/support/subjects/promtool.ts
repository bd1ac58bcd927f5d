import { spawnSync } from 'node:child_process'
import { expect } from 'vitest'

/** The checker that Prometheus itself brings: of Debian's package `prometheus`, or what the variable names. */
const PROMTOOL = process.env['TXBOX_TEST_PROMTOOL'] ?? 'promtool'

/** Whether promtool is installed. Without it, only the project's own checks look at metrics. */
export const hasPromtool = spawnSync(PROMTOOL, ['--version']).status === 0

/** Runs promtool, and fails with what it complains of. */
export function promtool(args: readonly string[]): void {
  const { status, stdout, stderr } = spawnSync(PROMTOOL, args, { encoding: 'utf8' })
  expect({ status, output: status === 0 ? '' : stdout + stderr }).toEqual({ status: 0, output: '' })
}

/** Fails if Prometheus could not read the metrics. Its advice on names, which OpenTelemetry's rules decide, is left out. */
export function checkedByPromtool(text: string): void {
  if (!hasPromtool) return
  const { status, stderr } = spawnSync(PROMTOOL, ['check', 'metrics'], { input: text, encoding: 'utf8' })
  // 1: the text is invalid; 3: it is valid, and there is advice.
  expect({ isValid: status === 0 || status === 3, stderr }).toEqual({
    isValid: true,
    stderr: expect.any(String),
  })
}

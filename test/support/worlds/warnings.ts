import { onTestFinished } from 'vitest'

/** The process warnings about pools that are too small, from now until the end of the test. */
export function smallPoolWarnings(): readonly string[] {
  const caught: string[] = []
  const listener = (warning: Error): void => {
    if (Reflect.get(warning, 'code') === 'TXBOX_SMALL_POOL') caught.push(warning.message)
  }
  process.on('warning', listener)
  onTestFinished(() => void process.off('warning', listener))
  return caught
}

/** The process warnings with a code, from now until the end of the test. They arrive a turn of the event loop later. */
export function warningsOf(code: string): readonly string[] {
  const caught: string[] = []
  const listener = (warning: Error): void => {
    if (Reflect.get(warning, 'code') === code) caught.push(warning.message)
  }
  process.on('warning', listener)
  onTestFinished(() => void process.off('warning', listener))
  return caught
}

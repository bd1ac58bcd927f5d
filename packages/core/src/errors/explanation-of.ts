import { classOf } from '../text/name-of.ts'
import { oneLine } from '../text/one-line.ts'
import { propertyOf } from './property-of.ts'
import { reasonOf } from './reason-of.ts'
import { withCauses } from './causes.ts'

/** The maximum length of the name of a class, and of a stack frame. */
const CLASS_CHARACTERS = 100
const FRAME_CHARACTERS = 300
/** How much of a stack is read. */
const STACK_CHARACTERS = 20_000

/** Names that say nothing about the kind of error. `pg` calls its errors `error`. */
const NAMELESS = new Set(['', 'Error', 'error'])

/** Frames of Node itself and of installed packages. */
const FOREIGN = /node:|\/node_modules\/|\\node_modules\\|<anonymous>|\(native\)/

/**
 * Explains a failure in one line for logs and stored texts: its reason as `reasonOf` returns it, the error's class, and the first
 * stack frame outside of Node and installed packages, of the error or else of its causes:
 * `no such order (PermanentError at placeOrder (/app/orders.js:12:7))`. Never throws, whatever `error` is.
 *
 * @param limitCharacters the maximum length of the result, in UTF-16 code units. @default 2000
 */
export function explanationOf(error: unknown, limitCharacters = 2000): string {
  if (typeof error !== 'object' || error === null) return reasonOf(error, limitCharacters)
  const origin = [oneLine(kindOf(error), CLASS_CHARACTERS), ownFrameOf(error)].filter((part) => part !== '')
  const suffix = origin.length === 0 ? '' : ` (${origin.join(' ')})`
  return oneLine(reasonOf(error, Math.max(1, limitCharacters - suffix.length)) + suffix, limitCharacters)
}

function kindOf(error: object): string {
  const name = propertyOf(error, 'name')
  if (typeof name === 'string' && !NAMELESS.has(name)) return name
  const className = classOf(error)
  return className === 'Object' ? '' : className
}

function ownFrameOf(error: object): string {
  for (const at of withCauses(error)) {
    const frame = framesOf(at).find((line) => !FOREIGN.test(line))
    if (frame !== undefined) return oneLine(frame.replace('file://', ''), FRAME_CHARACTERS)
  }
  return ''
}

/** Returns the frames of a stack. The message, which comes first, may contain lines that look like frames. */
function framesOf(error: object): readonly string[] {
  const stack = propertyOf(error, 'stack')
  if (typeof stack !== 'string') return []
  const message = propertyOf(error, 'message')
  const start = typeof message === 'string' ? stack.indexOf(message) : -1
  const from = start < 0 ? 0 : start + String(message).length
  return stack
    .slice(from, from + STACK_CHARACTERS)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.startsWith('at '))
}

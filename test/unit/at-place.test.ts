import { expect, test } from 'vitest'
import { atPlace } from '../../packages/command/src/at-place.ts'

test.for<[object, string]>([
  [{}, "Run 'npx txbox migrate', or pass the right --schema."],
  [{ schema: 'nope' }, "Run 'npx txbox migrate --schema nope', or pass the right --schema."],
  [{ prefix: 'shop_' }, "Run 'npx txbox migrate --prefix shop_', or pass the right --schema."],
  [
    { schema: 'My "$&"\n' },
    String.raw`Run 'npx txbox migrate --schema "My \"\$&\"\\n"', or pass the right --schema.`,
  ],
])('the advice to migrate names the tables of the command: %j', ([place, advice]) => {
  const text = "Run 'npx txbox migrate' or call migrate(db), or pass the right { schema } to postgres()."
  expect(atPlace(text, place)).toBe(advice)
})

test('the advice about a revision has only what a command can do', () => {
  expect(atPlace("Run 'npx txbox migrate', or call migrate(db).", { prefix: 'a_' })).toBe(
    "Run 'npx txbox migrate --prefix a_'.",
  )
})

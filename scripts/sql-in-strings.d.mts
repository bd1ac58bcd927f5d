/** The strings of a TypeScript file that hold SQL. */
export function sqlInStrings(
  name: string,
  source: string,
): readonly { readonly line: number; readonly text: string }[]

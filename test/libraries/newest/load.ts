/** Imports a package of this folder's versions. */
export function load(specifier: string): Promise<unknown> {
  return import(/* @vite-ignore */ specifier)
}

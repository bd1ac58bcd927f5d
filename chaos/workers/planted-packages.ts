// Loaded before everything else in a worker of a run with a plant: the packages come from a copy with a known bug.
import { registerHooks } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const folder = process.env['TXBOX_CHAOS_PACKAGES']
if (folder === undefined)
  throw new Error('TXBOX_CHAOS_PACKAGES must name the folder with the copied packages.')
const parentURL = pathToFileURL(path.join(folder, 'index.js')).href

registerHooks({
  resolve: (specifier, context, nextResolve) =>
    nextResolve(specifier, specifier.startsWith('@txbox/') ? { ...context, parentURL } : context),
})

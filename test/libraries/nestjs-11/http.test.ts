// The plug-in imports NestJS from where it is installed: a copy of it among the modules of this folder finds NestJS 11.
import { cpSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import 'reflect-metadata'
import * as common from '@nestjs/common'
import * as core from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import { expect, test } from 'vitest'
import { nestRules, type Nest } from '../nestjs/http-rules.ts'

const PACKAGE = path.join(import.meta.dirname, '../../../packages/idempotency-key')
const COPY = path.join(import.meta.dirname, 'node_modules/.copies/idempotency-key')

async function plugin(): Promise<Nest['plugin']> {
  for (const part of ['dist', 'package.json']) {
    cpSync(path.join(PACKAGE, part), path.join(COPY, part), { recursive: true })
  }
  return (await import(pathToFileURL(path.join(COPY, 'dist/plugins/nest.js')).href)) as Nest['plugin']
}

nestRules(async () => ({
  common: common as unknown as Nest['common'],
  core: core as unknown as Nest['core'],
  plugin: await plugin(),
  platforms: { express: async () => new ExpressAdapter(), fastify: async () => new FastifyAdapter() },
}))

test('the copy of the plug-in finds NestJS 11', async () => {
  const require = createRequire(path.join(COPY, 'dist/plugins/nest.js'))
  expect((require('@nestjs/common/package.json') as { version: string }).version).toMatch(/^11\./)
})

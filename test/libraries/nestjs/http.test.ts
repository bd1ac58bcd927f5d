import 'reflect-metadata'
import * as common from '@nestjs/common'
import * as core from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import * as plugin from '@txbox/idempotency-key/nest'
import { nestRules } from './http-rules.ts'

nestRules(async () => ({
  common,
  core,
  plugin,
  platforms: { express: async () => new ExpressAdapter(), fastify: async () => new FastifyAdapter() },
}))

import { describe } from 'vitest'
import { testEffectOnce } from './effect-once.ts'
import { useKafkaProgram } from './kafka-program.ts'
import { testLogins } from './logins.ts'
import { testOutages } from './outages.ts'

// One broker for all: starting a broker takes longer than most of the tests.
const broker = useKafkaProgram()

describe('logins', () => testLogins(broker))
describe('outages', () => testOutages(broker))
describe('effect once', () => testEffectOnce(broker))

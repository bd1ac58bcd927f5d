import { describe } from 'vitest'
import { useKafkaProgram } from './kafka-program.ts'
import { testLogins } from './logins.ts'
import { testOutages } from './outages.ts'

// One broker for both: starting a broker takes longer than most of the tests.
const broker = useKafkaProgram()

describe('logins', () => testLogins(broker))
describe('outages', () => testOutages(broker))

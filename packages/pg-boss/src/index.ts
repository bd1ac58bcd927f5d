export { InvalidOptionError } from '@txbox/core'

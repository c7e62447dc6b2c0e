// The cases of the field about whole processes: the built client passes each, the naive one fails each for its fault.
import { describe, expect, it } from 'vitest'
import { alsoProcesses, processCases } from './processes.js'

describe.concurrent('cases of processes', () => {
  for (const { id, title, run } of [...processCases, ...alsoProcesses]) it(`${id} ${title}`, () => run('holdfast'))

  for (const { id, title, run, naive } of processCases) {
    it(`${id} fails with a naive client: ${title}`, () => expect(run('naive')).rejects.toThrow(naive))
  }
})

// The line of waiters: first in, first out, and out from anywhere.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Fifo, type Place } from '../../src/lease/fifo.js'

describe('Fifo', () => {
  it('does what an array does', () => {
    const operation = fc.record({ what: fc.constantFrom('push', 'push', 'shift', 'remove'), which: fc.nat(50) })
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 200 }), (operations) => {
        const line = new Fifo<number>()
        const places: Place<number>[] = []
        let model: number[] = []
        for (const { what, which } of operations) {
          if (what === 'push') {
            model.push(places.length)
            places.push(line.push(places.length))
          } else if (what === 'shift') expect(line.shift()).toBe(model.shift())
          else {
            const place = places[which % Math.max(1, places.length)]
            if (place === undefined) continue
            line.remove(place) // perhaps a second time
            model = model.filter((value) => value !== place.value)
          }
          expect([...line]).toEqual(model)
          expect(line.size).toBe(model.length)
        }
      }),
    )
  })

  it('may be left while it is walked', () => {
    const line = new Fifo<number>()
    const places = [1, 2, 3].map((value) => line.push(value))
    const seen: number[] = []
    for (const value of line) {
      seen.push(value)
      if (value === 1) for (const place of places.slice(1, 2)) line.remove(place)
    }
    expect(seen).toEqual([1, 3])
  })
})

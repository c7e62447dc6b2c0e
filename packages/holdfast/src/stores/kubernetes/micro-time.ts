// Kubernetes takes times with exactly six digits after the second, and refuses what Date writes (three).

const pad = (value: number, digits: number) => String(value).padStart(digits, '0')

/** Microseconds since 1970 as a MicroTime. */
export function toMicroTime(us: number): string {
  const seconds = Math.floor(us / 1e6)
  const days = Math.floor(seconds / 86_400)
  const rest = seconds - days * 86_400
  // Days to a date, in years that begin in March, so that the leap day is the last one.
  const shifted = days + 719_468
  const era = Math.floor(shifted / 146_097)
  const dayOfEra = shifted - era * 146_097
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1_460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  )
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100))
  const shiftedMonth = Math.floor((5 * dayOfYear + 2) / 153)
  const day = dayOfYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
  const date = `${pad(year, 4)}-${pad(month, 2)}-${pad(day, 2)}`
  const time = `${pad(Math.floor(rest / 3_600), 2)}:${pad(Math.floor(rest / 60) % 60, 2)}:${pad(rest % 60, 2)}`
  return `${date}T${time}.${pad(us - seconds * 1e6, 6)}Z`
}

/** Microseconds since 1970 of a MicroTime, or of the Date that a client made of one; undefined for neither. */
export function fromMicroTime(time: unknown): number | undefined {
  if (typeof time === 'string') {
    const [, second, fraction = '', zone] = /^(.{19})(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$/i.exec(time) ?? []
    const ms = Date.parse(`${second}${zone}`)
    return Number.isNaN(ms) ? undefined : ms * 1e3 + Number(fraction.padEnd(6, '0').slice(0, 6))
  }
  const ms = time instanceof Date ? time.getTime() : Number.NaN
  return Number.isNaN(ms) ? undefined : ms * 1e3
}

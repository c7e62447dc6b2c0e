// What the audience sees: one line a step, as it happens. Colours only on a terminal that wants them; with --json one object a
// line, with the same text in it.
import { styleText } from 'node:util'

export type Voice = 'a' | 'b' | 'db' | 'demo'

export interface Narrator {
  /** One step: who, what, in words; and the facts, for programs. */
  step(who: Voice, text: string, facts: Readonly<Record<string, unknown>>): void
  /** What was shown. */
  moral(text: string): void
}

const COLOURS = { a: 'cyan', b: 'magenta', db: 'yellow', demo: 'gray' } as const

/** Whether colours are wanted: a terminal, NO_COLOR not set (https://no-color.org), and no --no-color. */
export const wantsColours = (option: boolean, env: NodeJS.ProcessEnv = process.env): boolean =>
  option && process.stdout.isTTY === true && (env.NO_COLOR === undefined || env.NO_COLOR === '') && env.TERM !== 'dumb'

export function narrator(json: boolean, colours: boolean): Narrator {
  let count = 0
  const write = (line: string) => process.stdout.write(`${line}\n`)
  if (json) {
    return {
      step: (who, text, facts) => write(JSON.stringify({ step: ++count, who, ...facts, text })),
      moral: (text) => write(JSON.stringify({ step: ++count, who: 'demo', is: 'shown', text })),
    }
  }
  const paint = (format: Parameters<typeof styleText>[0], text: string) =>
    colours ? styleText(format, text, { validateStream: false }) : text
  return {
    step: (who, text) => write(`${paint(COLOURS[who], (who === 'demo' ? '--' : who).padEnd(3))} ${text}`),
    moral: (text) => write(paint('bold', text)),
  }
}

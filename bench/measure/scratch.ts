// A directory for the files of one sample.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export class Scratch {
  readonly #directory = mkdtempSync(join(tmpdir(), 'holdfast-bench-'))

  /** The path of a file in it. */
  file(name: string): string {
    return join(this.#directory, name)
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

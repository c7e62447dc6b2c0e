// `holdfast demo`: the freeze that leases cannot survive and fences can, with three real processes.
import type { Command } from 'commander'
import { chooseStore, connect } from '../connect.js'
import { narrator, wantsColours } from '../demo/narrator.js'
import { type Stage, tellStory } from '../demo/story.js'
import { CliError, EXIT } from '../exit.js'

const HELP = `
Three processes: db stands in for the database and keeps the leases and two registers; a and b each want to write a report.
Without --store the clock of db's leases is moved by hand, so that the story takes a second and is the same on every run.
With --store URL the same story is played on that store in real time, with a lease of 3s, a key of its own, and the fence of
that store where there is one. --store without a URL takes the one in HOLDFAST_STORE, which is not used otherwise.`

export function addDemo(program: Command): void {
  program
    .command('demo')
    .description('watch what happens when the holder of a lease is frozen')
    .option('--store [url]', 'play it in real time on this store, such as sqlite:./leases.db')
    .option('--json', 'print one JSON object a line')
    .option('--no-color', 'no colours (as with NO_COLOR)')
    .addHelpText('after', HELP)
    .action(async (options: { store?: string | true; json?: boolean; color: boolean }) => {
      if (process.platform === 'win32')
        throw new CliError(EXIT.internal, 'demo needs SIGSTOP, which Windows does not have')
      const stage = options.store === undefined ? { storeUrl: null, fenced: true } : await stageOn(options.store)
      await tellStory(stage, narrator(options.json === true, wantsColours(options.color)))
    })
}

/** Opens the store once, so that a URL that cannot be right is told before any process starts. */
async function stageOn(option: string | true): Promise<Stage> {
  const choice = chooseStore(option === true ? undefined : option)
  const { store, registers } = await connect(choice)
  await store.close()
  return { storeUrl: choice.url, fenced: registers !== undefined }
}

// What the scripts that drive an SDK from Node have in common: where things are, turns one after the other, questions of
// permission, and telling what each scenario saw.

export const [binary, places] = [process.argv[2], JSON.parse(process.argv[3])];
const LIMIT_MS = 60_000;

/** The words of messages of the model. */
export const textsOf = (messages) =>
  messages
    .flatMap(({ message }) => message.content)
    .filter(({ type }) => type === 'text')
    .map(({ text }) => text);

const user = (content) => ({
  type: 'user',
  session_id: '',
  message: { role: 'user', content },
  parent_tool_use_id: null,
});

/** Turns that are begun one after the other, each when the one before it has its result. */
export function conversation() {
  const waiting = [];
  let wake = () => {};
  let ended = false;
  return {
    say(content) {
      waiting.push(user(content));
      wake();
    },
    end() {
      ended = true;
      wake();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        while (waiting.length > 0) yield waiting.shift();
        if (ended) return;
        await new Promise((resolve) => (wake = resolve));
      }
    },
  };
}

/** One run whose questions are answered by `decide`: what came of it, and what was asked. */
export async function permission(run, decide) {
  const asked = [];
  const canUseTool = async (tool, input) => {
    asked.push({ tool, input });
    return decide(input);
  };
  return { ...(await run({ canUseTool })), asked };
}

const late = (name) =>
  new Promise((_, reject) => setTimeout(() => reject(new Error(`${name} took too long`)), LIMIT_MS).unref());

/** Each scenario says on a line of stdout what it saw; whether that is right is decided by the job that started this. */
export async function perform(scenarios) {
  for (const [name, scenario] of Object.entries(scenarios)) {
    let saw;
    try {
      saw = await Promise.race([scenario(name), late(name)]);
    } catch (error) {
      saw = { raised: String(error?.message ?? error) };
    }
    console.log(`saw ${JSON.stringify({ name, saw })}`);
  }
}

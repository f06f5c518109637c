// `@anthropic-ai/claude-agent-sdk` as it is installed, with nothing changed but `pathToClaudeCodeExecutable`. The
// scenarios are those of `sdk_claude.py` that the SDK's own code bears on.

import { createSdkMcpServer, query, tool } from '@anthropic-ai/claude-agent-sdk';
import { z } from 'zod';

import { binary, conversation, perform, permission, places, textsOf } from './sdk_common.mjs';

const options = (name, more = {}) => ({
  pathToClaudeCodeExecutable: binary,
  cwd: places[name].cwd,
  env: { ...process.env, ...places[name].env },
  ...more,
});

/** One prompt, to the end of the process. */
async function ask(name, more = {}, prompt = 'Go.') {
  const seen = [];
  for await (const message of query({ prompt, options: options(name, more) })) seen.push(message);
  return seen;
}

const isResult = ({ type }) => type === 'result';

const outcome = (seen) => {
  const { result, is_error, subtype, structured_output, permission_denials } = seen.findLast(isResult);
  return { result, is_error, subtype, structured: structured_output, denials: permission_denials };
};

const texts = (seen) => textsOf(seen.filter(({ type }) => type === 'assistant'));

const deltas = (seen) =>
  seen
    .filter(({ type, event }) => type === 'stream_event' && event.type === 'content_block_delta')
    .map(({ event }) => event.delta.text);

const decided = (name, decide) => permission(async (more) => outcome(await ask(name, more)), decide);

const scenarios = {
  async query(name) {
    const seen = await ask(name);
    const init = seen.find(({ type, subtype }) => type === 'system' && subtype === 'init');
    return { ...outcome(seen), text: texts(seen), version: init.claude_code_version };
  },

  async 'structured result'(name) {
    const schema = {
      type: 'object',
      properties: { risk: { enum: ['low', 'high'] } },
      required: ['risk'],
    };
    return outcome(await ask(name, { outputFormat: { type: 'json_schema', schema }, maxTurns: 3 }));
  },

  async 'two turns'(name) {
    const talk = conversation();
    const results = [];
    talk.say('first');
    for await (const message of query({ prompt: talk, options: options(name) })) {
      if (!isResult(message)) continue;
      results.push(message.result);
      if (results.length === 1) talk.say('second');
      else talk.end();
    }
    return { results };
  },

  allowed: (name) => decided(name, async (updatedInput) => ({ behavior: 'allow', updatedInput })),
  changed: (name) =>
    decided(name, async (input) => ({ behavior: 'allow', updatedInput: { ...input, content: 'changed\n' } })),
  denied: (name) => decided(name, async () => ({ behavior: 'deny', message: 'not today' })),

  async interrupt(name) {
    const talk = conversation();
    const session = query({ prompt: talk, options: options(name, { includePartialMessages: true }) });
    const results = [];
    let stopping = false;
    talk.say('Slow.');
    for await (const message of session) {
      if (!stopping && deltas([message]).length > 0) {
        stopping = true;
        await session.interrupt();
      }
      if (!isResult(message)) continue;
      results.push(message);
      if (results.length === 1) talk.say('Again.');
      else talk.end();
    }
    return { stopped: outcome(results.slice(0, 1)), after: results[1].result };
  },

  async 'partial messages'(name) {
    const seen = await ask(name, { includePartialMessages: true });
    return { deltas: deltas(seen), text: texts(seen) };
  },

  async 'in-process tool'(name) {
    const called = [];
    const add = tool('add', 'Adds two numbers', { a: z.number(), b: z.number() }, async (args) => {
      called.push(args);
      return { content: [{ type: 'text', text: String(args.a + args.b) }] };
    });
    const calc = createSdkMcpServer({ name: 'calc', version: '1.0.0', tools: [add] });
    const seen = await ask(name, { mcpServers: { calc }, allowedTools: ['mcp__calc__add'] });
    return { ...outcome(seen), called };
  },

  async hook(name) {
    const told = [];
    const guard = async ({ tool_name, tool_input }) => {
      told.push({ tool: tool_name, command: tool_input.command });
      return {
        hookSpecificOutput: {
          hookEventName: 'PreToolUse',
          permissionDecision: 'deny',
          permissionDecisionReason: 'not here',
        },
      };
    };
    const seen = await ask(name, {
      hooks: { PreToolUse: [{ matcher: 'Bash', hooks: [guard] }] },
      includeHookEvents: true,
      permissionMode: 'bypassPermissions',
      allowDangerouslySkipPermissions: true,
    });
    const events = seen
      .filter(({ type, subtype }) => type === 'system' && subtype.startsWith('hook_'))
      .map(({ subtype, hook_event }) => [subtype, hook_event]);
    return { ...outcome(seen), told, events };
  },
};

await perform(scenarios);

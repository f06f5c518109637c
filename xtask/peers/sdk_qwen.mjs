// `@qwen-code/sdk` as it is installed, with nothing changed but `pathToQwenExecutable`. Each scenario says on a
// line of stdout what it saw; whether that is right is decided by the job that started this.

import {
  createSdkMcpServer,
  isSDKAssistantMessage,
  isSDKPartialAssistantMessage,
  isSDKResultMessage,
  isSDKSystemMessage,
  query,
  tool,
} from '@qwen-code/sdk';
import { z } from 'zod';

import { binary, conversation, perform, permission, places, textsOf } from './sdk_common.mjs';

const options = (name, more = {}) => ({
  pathToQwenExecutable: binary,
  cwd: places[name].cwd,
  env: places[name].env,
  authType: 'openai',
  model: 'test-model',
  ...more,
});

/** One prompt, to the end of the process. */
async function ask(name, more = {}, prompt = 'Go.') {
  const seen = [];
  for await (const message of query({ prompt, options: options(name, more) })) seen.push(message);
  return seen;
}

const outcome = (seen) => {
  const { result, is_error, subtype, num_turns, permission_denials } = seen.findLast(isSDKResultMessage);
  return { result, is_error, subtype, turns: num_turns, denials: permission_denials };
};

const texts = (seen) => textsOf(seen.filter(isSDKAssistantMessage));

const decided = (name, decide) => permission(async (more) => outcome(await ask(name, { ...more, permissionMode: 'default' })), decide);

const scenarios = {
  async query(name) {
    const seen = await ask(name);
    const init = seen.find((message) => isSDKSystemMessage(message) && message.subtype === 'init');
    return { ...outcome(seen), text: texts(seen), channel: init.channel };
  },

  async 'two turns'(name) {
    const talk = conversation();
    const session = query({ prompt: talk, options: options(name) });
    const results = [];
    talk.say('first');
    for await (const message of session) {
      if (!isSDKResultMessage(message)) continue;
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
      if (!stopping && isSDKPartialAssistantMessage(message) && message.event.type === 'content_block_delta') {
        stopping = true;
        await session.interrupt();
      }
      if (!isSDKResultMessage(message)) continue;
      results.push(message);
      if (results.length === 1) talk.say('Again.');
      else talk.end();
    }
    return { stopped: outcome(results.slice(0, 1)), after: results[1].result };
  },

  async 'partial messages'(name) {
    const seen = await ask(name, { includePartialMessages: true });
    const deltas = seen
      .filter(isSDKPartialAssistantMessage)
      .filter(({ event }) => event.type === 'content_block_delta')
      .map(({ event }) => event.delta.text);
    return { deltas, text: texts(seen) };
  },

  async 'in-process tool'(name) {
    const called = [];
    const add = tool('add', 'Adds two numbers', { a: z.number(), b: z.number() }, async (args) => {
      called.push(args);
      return { content: [{ type: 'text', text: String(args.a + args.b) }] };
    });
    const calc = createSdkMcpServer({ name: 'calc', version: '1.0.0', tools: [add] });
    const seen = await ask(name, { mcpServers: { calc }, permissionMode: 'yolo' });
    return { ...outcome(seen), called };
  },

  // This SDK passes no hooks of its own: those of the settings run as they do for anyone.
  async hook(name) {
    return outcome(await ask(name, { permissionMode: 'yolo' }));
  },

  async 'control requests'(name) {
    const talk = conversation();
    const session = query({ prompt: talk, options: options(name) });
    talk.say('Go.');
    const told = {};
    for await (const message of session) {
      if (!isSDKResultMessage(message)) continue;
      await session.setPermissionMode('yolo');
      await session.setModel('other-model');
      told.usage = (await session.getContextUsage()).modelName;
      told.commands = Array.isArray((await session.supportedCommands()).commands);
      told.models = (await session.getAvailableModels()).models.length > 0;
      told.servers = typeof (await session.mcpServerStatus());
      talk.end();
    }
    return told;
  },

  async flags(name) {
    const session = '2bec3e94-56aa-43ba-8c6f-8306da3a8564';
    const said = [];
    const seen = await ask(name, {
      sessionId: session,
      systemPrompt: 'You are brief.',
      permissionMode: 'auto-edit',
      maxSessionTurns: 5,
      maxToolCalls: 7,
      maxSubagentDepth: 2,
      coreTools: ['read_file', 'run_shell_command'],
      excludeTools: ['web_fetch'],
      allowedTools: ['run_shell_command(git status)'],
      includeDirectories: [places[name].cwd],
      extensions: ['none'],
      fallbackModel: ['other-model'],
      safeMode: true,
      sandbox: true,
      logLevel: 'debug',
      stderr: (line) => said.push(line),
    });
    const init = seen.find((message) => isSDKSystemMessage(message) && message.subtype === 'init');
    return { ...outcome(seen), session: init.session_id === session, tools: init.tools, warned: said.join('').includes('--extensions') };
  },
};

await perform(scenarios);

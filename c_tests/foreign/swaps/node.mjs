// node-llama-cpp as in programs of its users: node.mjs MODEL PROMPT. For scripts/test_swaps.py, as the other programs of
// this folder. Each prints a line of JSON: numbers that the library computed, a text, the seconds that both took,
// and the peak of memory in KiB.
import {readFileSync} from "node:fs";
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const [modelPath, prompt] = process.argv.slice(2);
const llama = await getLlama({gpu: false, logLevel: LlamaLogLevel.error, build: "never"});
const model = await llama.loadModel({modelPath});
const context = await model.createContext({contextSize: 512, threads: 2});
const sequence = context.getSequence();
const tokens = model.tokenize(prompt);
const some = Array.from({length: 400}, (_, i) => 77 * i);
const begin = Date.now();

const results = await sequence.controlledEvaluate(tokens.map((t) => [t, {generateNext: {logits: {filter: {tokens: some}}}}]));
const numbers = results.flatMap((r) => some.map((t) => r.next.logits.get(t)));
await sequence.clearHistory();
const text = [];
for await (const token of sequence.evaluate(tokens, {temperature: 0})) {
    if (text.push(token) >= 32) {
        break;
    }
}
const seconds = (Date.now() - begin) / 1000;
const peak = Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
// A pipe takes 64 KiB at once.
process.stdout.write(JSON.stringify({numbers, text: model.detokenize(text), seconds, peak}) + "\n", () => process.exit(0));

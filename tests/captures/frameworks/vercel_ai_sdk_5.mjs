// Vercel's AI SDK of the years before its integration: `ai.*` attributes on spans of its own.
// /// script
// dependencies = [
//   "ai@5.0.277",
//   "@ai-sdk/openai@2.0.130",
//   "zod@4.6.7",
//   "@opentelemetry/sdk-trace-node@2.12.0",
//   "@opentelemetry/exporter-trace-otlp-proto@0.223.1",
// ]
// [tool.capture.vercel_ai_sdk_5]
// not_in_the_file = ["cache_read_tokens"]
// ///
import { createOpenAI } from "@ai-sdk/openai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";
import { MODEL, MODEL_URL, SINK_URL, SYSTEM, TASK, getOrder, refundOrder } from "./shop.mjs";

const exporter = new OTLPTraceExporter({ url: `${SINK_URL}/v1/traces` });
const provider = new NodeTracerProvider({
  spanProcessors: [new BatchSpanProcessor(exporter, { scheduledDelayMillis: 600_000 })],
});
provider.register();

const openai = createOpenAI({ baseURL: `${MODEL_URL}/v1`, apiKey: "none" });
const { text } = await generateText({
  model: openai.chat(MODEL),
  system: SYSTEM,
  prompt: TASK,
  tools: {
    get_order: tool({
      description: "Look up an order.",
      inputSchema: z.object({ order_id: z.string() }),
      execute: getOrder,
    }),
    refund_order: tool({
      description: "Refund an order.",
      inputSchema: z.object({ order_id: z.string(), amount: z.number() }),
      execute: refundOrder,
    }),
  },
  stopWhen: stepCountIs(5),
  experimental_telemetry: { isEnabled: true, functionId: "shop" },
});
console.log(text);
await provider.shutdown();

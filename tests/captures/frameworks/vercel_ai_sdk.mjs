// Vercel's AI SDK with its OpenTelemetry integration, which records contents unless told not to.
// /// script
// dependencies = [
//   "ai@7.0.173",
//   "@ai-sdk/openai@3.0.141",
//   "@ai-sdk/otel@1.0.173",
//   "zod@4.6.7",
//   "@opentelemetry/sdk-trace-node@2.12.0",
//   "@opentelemetry/exporter-trace-otlp-proto@0.223.1",
// ]
// [tool.capture.vercel_ai_sdk]
// ///
import { createOpenAI } from "@ai-sdk/openai";
import { OpenTelemetry } from "@ai-sdk/otel";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { generateText, isStepCount, registerTelemetry, tool } from "ai";
import { z } from "zod";
import { MODEL, MODEL_URL, SINK_URL, SYSTEM, TASK, getOrder, refundOrder } from "./shop.mjs";

const exporter = new OTLPTraceExporter({ url: `${SINK_URL}/v1/traces` });
const provider = new NodeTracerProvider({
  spanProcessors: [new BatchSpanProcessor(exporter, { scheduledDelayMillis: 600_000 })],
});
provider.register();
registerTelemetry(new OpenTelemetry());

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
  stopWhen: isStepCount(5),
  telemetry: { functionId: "shop" },
});
console.log(text);
await provider.shutdown();

// Mastra's agent with its own spans, posted by its OpenTelemetry exporter.
// /// script
// dependencies = [
//   "@mastra/core@1.71.0",
//   "@mastra/observability@1.17.9",
//   "@mastra/otel-exporter@1.4.0",
//   "@ai-sdk/openai@3.0.141",
//   "zod@4.6.7",
//   "@opentelemetry/exporter-trace-otlp-proto@0.223.1",
// ]
// [tool.capture.mastra_otel]
// ///
import { createOpenAI } from "@ai-sdk/openai";
import { Agent } from "@mastra/core/agent";
import { Mastra } from "@mastra/core/mastra";
import { createTool } from "@mastra/core/tools";
import { Observability } from "@mastra/observability";
import { OtelExporter } from "@mastra/otel-exporter";
import { z } from "zod";
import { MODEL, MODEL_URL, SINK_URL, SYSTEM, TASK, getOrder, refundOrder } from "./shop.mjs";

const openai = createOpenAI({ baseURL: `${MODEL_URL}/v1`, apiKey: "none" });
const shop = new Agent({
  id: "shop",
  name: "shop",
  instructions: SYSTEM,
  model: openai.chat(MODEL),
  tools: {
    get_order: createTool({
      id: "get_order",
      description: "Look up an order.",
      inputSchema: z.object({ order_id: z.string() }),
      execute: async (given) => getOrder(given),
    }),
    refund_order: createTool({
      id: "refund_order",
      description: "Refund an order.",
      inputSchema: z.object({ order_id: z.string(), amount: z.number() }),
      execute: async (given) => refundOrder(given),
    }),
  },
});
const endpoint = `${SINK_URL}/v1/traces`;
const exporter = new OtelExporter({
  provider: { custom: { endpoint, protocol: "http/protobuf" } },
});
const mastra = new Mastra({
  agents: { shop },
  observability: new Observability({
    configs: { otel: { serviceName: "shop", exporters: [exporter] } },
  }),
});
const answer = await mastra.getAgent("shop").generate(TASK, { maxSteps: 5 });
console.log(answer.text);
await mastra.shutdown();
